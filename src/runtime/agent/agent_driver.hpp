// SPDX-License-Identifier: BSD-3-Clause
// Turns the world into events for AgentMachine and carries out its commands, on one io_context and one thread.
#pragma once

#include "core/agent/agent_machine.hpp"
#include "core/agent/hang_watch.hpp"
#include "core/agent/worker_env.hpp"
#include "core/devices/virtual_rank.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"
#include "core/report/chronicle.hpp"
#include "core/report/health_record.hpp"
#include "runtime/agent/event_file.hpp"
#include "runtime/agent/event_log.hpp"
#include "runtime/agent/heartbeats.hpp"
#include "runtime/agent/job_meeting.hpp"
#include "runtime/agent/worker_starter.hpp"
#include "runtime/agent/worker_timers.hpp"
#include "runtime/health/health_file.hpp"
#include "runtime/health/health_server.hpp"
#include "runtime/logs/log_files.hpp"
#include "runtime/logs/tail.hpp"
#include "runtime/os/signal_source.hpp"
#include "runtime/process/containment.hpp"
#include "runtime/process/local_workers.hpp"
#include "runtime/process/stack_collector.hpp"
#include "runtime/process/worker_evidence.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cpprun {

/// What the agent is given by the launch.
struct AgentParts {
    const LaunchConfig& config;
    const HostFacts& host;
    const SignalInheritance& signals;
    std::optional<rlimit> worker_descriptor_limit;
    std::vector<std::vector<int>> cpus_by_rank;     ///< empty: no NUMA binding
    std::optional<VirtualDevices> virtual_devices;  ///< with --virtual-local-rank
    RunLogs& logs;
    JobMeeting& meeting;
    Containment& containment;
    EventFile* events = nullptr;  ///< none: nothing asks for them
};

class AgentDriver {
  public:
    /// `io` must outlive the driver and not run anywhere else; the parts must outlive it too.
    AgentDriver(boost::asio::io_context& io, AgentParts parts);
    ~AgentDriver();

    /// Runs the agent to its end and returns how it went. Called once.
    RunResult run();

    /// What has happened.
    const Chronicle& chronicle() const { return chronicle_; }

  private:
    void post(AgentEvent event);
    void pump();
    void obey(const std::vector<AgentCommand>& commands);
    void tell_chronicle();
    EventMoment moment() const;
    void execute(const JoinRound& command);
    void execute(const StartGroup& command);
    void execute(const EnterExitBarrier& command);
    void execute(const SignalWorkers& command);
    void execute(const SignalTrees& command);
    void execute(const KillTree& command);
    void execute(const LeaveTree& command);
    void execute(const KillTrees& command);
    void execute(const AwaitTrees& command);
    void execute(const ReportStuck& command);
    void execute(const CollectEvidence& command);
    void execute(const SuspendGroup& command);
    void execute(const ContinueGroup& command);
    void execute(const ReleaseGroup& command);
    void execute(const ArmTimer& command);
    void execute(const CancelTimer& command);
    void execute(const Say& command);
    void execute(const Finish& command);

    Result<void> begin_attempt();
    void stop_when_all_is_said();
    Result<void> start_worker(int local_rank);
    LinePrefix line_prefix(int local_rank, Std stream) const;
    WorkerPlace place_of(int local_rank) const;
    WorkerExited exit_event(int local_rank, ExitStatus status) const;
    FailureEvidence evidence_of(int local_rank, ExitStatus status) const;
    void on_signal(const ReceivedSignal& signal);
    void watch_uninterruptible();
    void look_for_trees();
    void say_who_is_waited_for_after(std::chrono::milliseconds pause);
    std::string waited_for() const;
    void hear_note(const PeerNote& note);
    void say_what_failed(const WorkerExited& event);
    void add_places(const std::vector<RanksAt>& places);
    void conclude_places();
    void share_last_words();
    void watch_for_hidden_prompts();
    void watch_for_silence();
    void note_output(std::chrono::milliseconds now);
    void start_health();
    HealthRecord health() const;

    boost::asio::io_context& io_;
    AgentParts parts_;
    std::set<int> handled_signals_;
    std::set<int> forwarded_signals_;
    AgentMachine machine_;
    SignalSource signals_;
    LocalWorkers workers_;
    Tail tail_;
    WorkerTimers worker_timers_;
    WorkerStarter starter_;
    EventLog event_log_;
    Chronicle chronicle_;
    WorkerEvidence evidence_;
    StackCollector collector_;
    HangWatch hang_watch_;
    std::unique_ptr<Heartbeats> heartbeats_;  ///< with --hang-after
    boost::asio::steady_timer silence_timer_;
    boost::asio::steady_timer places_timer_;
    std::vector<RanksAt> places_;  ///< of this node and others, since somebody asked
    boost::asio::steady_timer words_timer_;
    boost::asio::steady_timer prompts_timer_;
    std::set<int> prompts_told_;             ///< local ranks
    std::vector<std::uint64_t> words_seen_;  ///< by local rank
    std::chrono::steady_clock::time_point words_told_;
    std::vector<std::uint64_t> output_seen_;  ///< what the workers had written when somebody last looked
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    std::optional<HealthFile> health_file_;
    std::unique_ptr<HealthServer> health_server_;
    std::string_view phase_;
    std::chrono::steady_clock::time_point phase_began_;
    std::map<AgentTimer, boost::asio::steady_timer> timers_;
    boost::asio::steady_timer state_timer_;
    boost::asio::steady_timer trees_timer_;
    boost::asio::steady_timer grace_words_timer_;
    std::chrono::steady_clock::time_point grace_ends_;
    std::map<int, std::chrono::steady_clock::time_point> uninterruptible_since_;
    std::deque<AgentEvent> events_;
    bool pumping_ = false;
    std::optional<RunResult> result_;

    // The attempt that runs.
    RoundPlace place_;
    std::chrono::steady_clock::time_point joining_since_;
    std::optional<std::chrono::steady_clock::time_point> lease_;
    bool goodbye_said_ = false;
    bool console_drained_ = false;
    std::chrono::steady_clock::time_point group_started_;
    AttemptLogs attempt_logs_;
    std::vector<int> pids_;                            ///< by local rank, of those that were started
    bool trees_doomed_ = false;                        ///< by KillTrees
    std::vector<std::optional<ExitStatus>> statuses_;  ///< by local rank, of those that have ended
};

}  // namespace cpprun
