// SPDX-License-Identifier: BSD-3-Clause
// What has happened in a run, as this node's agent saw it: the records of --events (docs/events.md) and the history of
// its rounds. Told every event and every command of the agent; reads no clock and writes no file.
#pragma once

#include "core/agent/agent_events.hpp"
#include "core/launch_config.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

/// The number in every record's "v". Fields may be added under the same number; see docs/events.md.
inline constexpr int events_version = 1;

/// A time on both clocks.
struct EventMoment {
    std::chrono::microseconds since_epoch{0};  ///< wall clock, may jump
    std::chrono::microseconds since_start{0};  ///< of the agent; never goes back
};

/// "2026-01-31T12:00:00.000001Z".
std::string utc_text(std::chrono::microseconds since_epoch);

/// How a worker's life ended.
enum class WorkerEnd {
    succeeded,  ///< exit code 0
    failed,     ///< by itself, or by somebody else's signal
    stopped,    ///< after the agent's stop signal
    killed,     ///< after the agent's SIGKILL
};
const char* name_of(WorkerEnd end);
const char* name_of(RunResult::Outcome outcome);

struct WorkerHistory {
    int local_rank = 0;
    int pid = 0;
    std::optional<ExitStatus> status = {};  ///< none: it has not been seen to end
    WorkerEnd end = WorkerEnd::succeeded;
    EventMoment ended = {};
};

/// One round of this node, from its place in it to the end of its workers.
struct RoundHistory {
    RoundPlace place;    ///< of its members the first 1024
    std::string reason;  ///< why there was a round: "start", or what ended the one before
    EventMoment formed = {};
    EventMoment started = {};  ///< when all workers ran
    std::optional<EventMoment> ended = {};
    std::string end_reason = {};
    std::string log_directory = {};  ///< of the attempt; empty: none
    std::vector<WorkerHistory> workers = {};
    std::vector<HangEvidence> evidence = {};  ///< the latest
    std::vector<RanksAt> places = {};         ///< of all nodes, the latest; empty: not known
};

/// What all records of one run say alike, and what the first of them tells.
struct ChronicleRun {
    std::string run_id;
    std::string host;
    int agent_pid = 0;
    std::string role;
    std::string backend;
    int nproc = 1;
    int nodes_min = 1;
    int nodes_max = 1;
    int max_restarts = 0;
    std::vector<std::string> command;  ///< SCRIPT and its arguments
    std::string log_directory;         ///< of the run; empty: none
};

class Chronicle {
  public:
    explicit Chronicle(ChronicleRun run);

    /// The agent begins.
    void began(const EventMoment& now);
    /// To be called before the machine hears the event.
    void heard(const AgentEvent& event, const EventMoment& now);
    /// To be called before the command is carried out.
    void decided(const AgentCommand& command, const EventMoment& now);
    /// The folder of the present attempt's logs.
    void logs_are_in(std::string attempt_directory);

    /// The records since the last call: each a line of JSON without a line break.
    std::vector<std::string> take_records();
    /// Remarks for the operator since the last call, for INFO.
    std::vector<std::string> take_remarks();

    const std::vector<RoundHistory>& rounds() const { return rounds_; }
    const ChronicleRun& run() const { return run_; }

  private:
    using Json = nlohmann::ordered_json;

    void hear(const RoundReady& event);
    void hear(const JoinFailed& event);
    void hear(const MembershipChanged& event);
    void hear(const PeersRestart& event);
    void hear(const RunEnded& event);
    void hear(const Fenced& event);
    void hear(const BarrierPassed& event);
    void hear(const GroupStarted& event);
    void hear(const GroupStartFailed& event);
    void hear(const WorkerExited& event);
    void hear(const WorkerStuck& event);
    void hear(const SignalReceived& event);
    void hear(const RestartRefused& event);
    void hear(const SignalToForward& event);
    void hear(const SuspensionAsked& event);
    void hear(const Continued& event);
    void hear(const TreesGone& event);
    void hear(const EvidenceAsked& event);
    void hear(const WorkersSilent& event);
    void hear(const EvidenceCollected& event);
    void hear(const PlacesKnown& event);
    void hear(const LastWordsFound& event);
    void hear(const TimerFired& event);
    void note(const JoinRound& command);
    void note(const EnterExitBarrier& command);
    void note(const SignalWorkers& command);
    void note(const Finish& command);
    template <class Other>
    void note(const Other&) {}

    void record(const char* event, Json fields);
    void lost(const std::vector<std::string>& nodes);
    void why(std::string reason);
    void end_round();
    RoundHistory* open_round();

    ChronicleRun run_;
    EventMoment now_;
    std::int64_t serial_ = 0;
    std::vector<RoundHistory> rounds_;
    EventMoment wanted_;          ///< when the round that forms was asked for
    std::string reason_;          ///< of the end of this round, and so of the next
    std::vector<int> signalled_;  ///< by local rank: the strongest signal that the agent has sent; 0: none
    std::vector<std::string> records_;
    std::vector<std::string> remarks_;
};

}  // namespace cpprun
