// SPDX-License-Identifier: BSD-3-Clause
// What can happen to an agent, and what it can ask for. The driver (runtime/agent) turns the world into events, one
// at a time and in order, and carries out the commands that come back.
#pragma once

#include "core/agent/exit_status.hpp"
#include "core/agent/worker_env.hpp"
#include "core/error.hpp"
#include "core/report/failure_summary.hpp"
#include "core/report/peer_records.hpp"
#include "core/report/worker_stacks.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cpprun {

/// One-shot timers of the agent. Arming a timer again moves it.
enum class AgentTimer {
    settle,   ///< ranks that fail together have had time to end by themselves
    grace,    ///< the stop signal has had its time: SIGKILL
    abandon,  ///< SIGKILL has had its time: what still lives cannot be killed
    backoff,  ///< the wait before a restart is over
};

/// This node's place in one round of the job.
struct RoundPlace {
    std::int64_t round = 0;  ///< the same on all nodes
    RankRange ranks;
    MasterAddress master;
    int restart_count = 0;                  ///< what the workers see; the nodes' own idea where it is the larger one
    std::vector<std::string> members = {};  ///< the nodes' names by group rank; empty where this node does not know it
};

// --- events ---

/// The round that was asked for is complete.
struct RoundReady {
    RoundPlace place;
};

/// This node will be in no round. `spare`: it was not needed, and the run ended well for all that is known.
struct JoinFailed {
    Error error;
    bool spare = false;
};

/// The nodes of the round change: stop the workers and join again. Nobody's fault, no restart is spent. `reason` goes
/// on after "…; will restart worker group".
struct MembershipChanged {
    std::string reason;
    std::vector<std::string> lost = {};  ///< names of the nodes that are gone
};

/// The restart that this node asked for is one too many for the whole job.
struct RestartRefused {
    std::string reason;
};

/// Workers of another node have failed, and all nodes restart: as MembershipChanged, but a restart is spent. `spent` is
/// how many that node has spent by now, where it says so: it knows which ones were free.
struct PeersRestart {
    std::string reason;
    std::optional<int> spent = {};
    std::vector<std::string> lost = {};
};

/// The job is over, by no doing of this node's: a final failure elsewhere, or the store is gone.
struct RunEnded {
    Error error;
    std::string report = {};  ///< what the node that failed says about it, many lines; empty: not known
};

/// The others may go on without this node, which they cannot hear: its workers must be gone before they do.
struct Fenced {
    std::string reason;
};

/// All nodes have ended well, or were waited for long enough.
struct BarrierPassed {};

/// Every worker of the attempt runs. `pids` by local rank.
struct GroupStarted {
    std::vector<int> pids;
};

/// The worker with this local rank could not be started; those before it run (`pids`, by local rank).
struct GroupStartFailed {
    std::vector<int> pids;
    Error error;
};

/// A worker ended. `failure` is complete but for what the machine knows itself; it is ignored on success.
struct WorkerExited {
    int local_rank = 0;
    ExitStatus status;
    WorkerFailure failure;
    std::chrono::milliseconds now{0};  ///< steady time of the event
};

/// A worker is in uninterruptible sleep for longer than is allowed (contract 8.6).
struct WorkerStuck {
    int local_rank = 0;
    std::chrono::duration<double> since{0};
};

/// A signal of --signals-to-handle, or one that would have ended the agent (`handled` is false then).
struct SignalReceived {
    int signo = 0;
    bool handled = true;
    std::string sender;          ///< "pid 12 (scancel, uid 0)" where known, else empty
    bool from_terminal = false;  ///< a key was pressed, as Ctrl+C
};

/// Nothing is left any more of what AwaitTrees waits for.
struct TreesGone {};
/// A signal of --forward-signals.
struct SignalToForward {
    int signo = 0;
    std::string sender;  ///< as above
};

/// SIGTSTP: the workers, and the agent where it can, should stand still until SIGCONT.
struct SuspensionAsked {};
/// The agent runs again, or SIGCONT came.
struct Continued {};

/// Somebody wants to know what the workers are doing.
struct EvidenceAsked {
    std::string reason;         ///< who and how: goes on after "evidence: "
    bool also_of_peers = true;  ///< the workers of the other nodes as well
};

/// These workers have shown no sign of life for the time of --hang-after.
struct WorkersSilent {
    std::vector<int> local_ranks;
    std::chrono::milliseconds silent_for{0};
    std::int64_t epoch_seconds = 0;  ///< now
};

/// What CollectEvidence has found.
struct EvidenceCollected {
    HangEvidence evidence;
};

/// Who is where on all nodes that have said so.
struct PlacesKnown {
    std::vector<RanksAt> places;
};

/// What a node that is gone has left of its workers' stderr.
struct LastWordsFound {
    std::string node;
    std::vector<RankWords> words;
};

struct TimerFired {
    AgentTimer timer = AgentTimer::settle;
};

using AgentEvent = std::variant<RoundReady, JoinFailed, RestartRefused, MembershipChanged, PeersRestart, RunEnded,
                                Fenced, BarrierPassed, GroupStarted, GroupStartFailed, WorkerExited, WorkerStuck,
                                SignalReceived, SignalToForward, SuspensionAsked, Continued, TreesGone, EvidenceAsked,
                                WorkersSilent, EvidenceCollected, PlacesKnown, LastWordsFound, TimerFired>;

// --- commands ---

/// Brings this node into the next round. Answered by RoundReady or JoinFailed.
struct JoinRound {
    enum class Cause {
        start,       ///< the first one
        failure,     ///< a worker of this node failed: the others have to restart too
        membership,  ///< nodes came or went, or another node asked for it
    };
    int restart_count = 0;
    Cause cause = Cause::start;
    int spent = 0;      ///< restarts that count against --max-restarts, for the others to know
    bool free = false;  ///< a restart after a failure that does not count
};

/// Starts all workers: fresh log folders, the place that the round gave. Answered by GroupStarted or
/// GroupStartFailed.
struct StartGroup {
    RoundPlace place;
};

/// All workers of this node have ended well: waits for those of the others. Answered by BarrierPassed, or by what
/// happens instead.
struct EnterExitBarrier {};

/// Sends `signo` to the process group of each of these workers, or with StopTarget::rank to the worker alone; those
/// that are gone are passed over.
struct SignalWorkers {
    int signo = 0;
    std::vector<int> local_ranks;
};

/// Stops all workers where they are (SIGSTOP to their groups). `agent_too`: then the agent itself; answered by
/// Continued once it runs again.
struct SuspendGroup {
    bool agent_too = false;
};

/// Continues all workers.
struct ContinueGroup {};

// A worker's tree is what it has started, directly or through others, and what still runs of that after its end.

/// These workers have ended: sends `signo` to those of their trees that have not been told yet.
struct SignalTrees {
    int signo = 0;
    std::vector<int> local_ranks;
};

/// This worker has ended: kills what is left of its tree.
struct KillTree {
    int local_rank = 0;
};

/// This worker has ended: names what is left of its tree, which may run on.
struct LeaveTree {
    int local_rank = 0;
};

/// Kills all that is left of all workers of the attempt, now and, as long as AwaitTrees is not answered, again.
struct KillTrees {
    int stop_signal = 0;  ///< what was sent before; 0: nothing
    bool quiet = false;   ///< a key on the terminal asked for the end: not a warning
};

/// All workers have ended. Answered by TreesGone when nothing is left of their trees.
struct AwaitTrees {};

/// What is left of the attempt cannot be killed: names it, with state and place in the kernel where known.
struct ReportStuck {};

/// Finds out what the workers that have not ended are doing. Answered by EvidenceCollected, in bounded time, also by
/// one that was under way already.
struct CollectEvidence {
    std::string reason;
    bool also_of_peers = false;
};

/// The attempt is over. `kill_leftovers`: what is left of the workers' trees is killed first. Then the workers are
/// reaped and their files closed.
struct ReleaseGroup {
    bool kill_leftovers = false;
};

struct ArmTimer {
    AgentTimer timer = AgentTimer::settle;
    std::chrono::milliseconds after{0};
};

struct CancelTimer {
    AgentTimer timer = AgentTimer::settle;
};

/// Something that the operator should hear.
struct Say {
    enum class Level { info, warning, error };
    /// `info` and the rest obey LOGLEVEL, but for messages that torchrun shows at any level (contract 4.9).
    Level level = Level::info;
    std::string text;
    bool always = false;
};

/// How a run ended.
struct RunResult {
    enum class Outcome {
        succeeded,
        workers_failed,   ///< `failures` holds the last attempt's
        signaled,         ///< stopped by `signo`
        not_started,      ///< `error` says what was missing
        ended_elsewhere,  ///< stopped since the job is over; `error` says why
    };
    Outcome outcome = Outcome::succeeded;
    std::vector<WorkerFailure> failures;
    int signo = 0;
    bool signal_handled = true;
    bool from_terminal = false;  ///< `signo` was a key
    Error error;
    std::string report_elsewhere = {};  ///< of another node that failed
    int restarts_used = 0;
};

struct Finish {
    RunResult result;
};

using AgentCommand = std::variant<JoinRound, StartGroup, EnterExitBarrier, SignalWorkers, SuspendGroup, ContinueGroup,
                                  SignalTrees, KillTree, LeaveTree, KillTrees, AwaitTrees, ReportStuck, CollectEvidence,
                                  ReleaseGroup, ArmTimer, CancelTimer, Say, Finish>;

}  // namespace cpprun
