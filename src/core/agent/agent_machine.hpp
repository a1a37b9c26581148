// SPDX-License-Identifier: BSD-3-Clause
// The agent's decisions: when to restart, when to stop whom, when the run is over, and what to say about it. A pure
// function of what has happened so far; docs/architecture.md draws its states.
#pragma once

#include "core/agent/agent_events.hpp"
#include "core/launch_config.hpp"

#include <string>
#include <vector>

namespace cpprun {

/// What the machine must know of a launch.
struct AgentSettings {
    int nproc = 1;
    int max_restarts = 0;
    std::string role = "default";
    std::string binary_description;  ///< "of binary: python3"
    std::chrono::milliseconds settle_time{30};
    std::chrono::milliseconds shutdown_timeout{30000};
    KillDescendants kill_descendants = KillDescendants::by_exit_code;
};

class AgentMachine {
  public:
    explicit AgentMachine(AgentSettings settings);

    /// The commands that begin the run. Called once.
    std::vector<AgentCommand> start();

    /// What to do about `event`. After a Finish command no event is expected any more; further ones are ignored.
    std::vector<AgentCommand> handle(const AgentEvent& event);

  private:
    enum class State {
        joining,   ///< JoinRound was asked for
        starting,  ///< StartGroup was asked for
        running,   ///< workers run, none has failed
        settling,  ///< one has failed; the others may still fail by themselves
        stopping,  ///< what is left of the attempt was asked to stop
        killing,   ///< what was left of the attempt was killed
        barrier,   ///< all have ended well; those of other nodes are waited for
        finished,
    };
    enum class StopReason { failure, signal, start_failure, membership, peers, ended };

    struct Worker {
        int pid = 0;
        bool alive = false;
    };

    void on(const RoundReady& event);
    void on(const JoinFailed& event);
    void on(const MembershipChanged& event);
    void on(const PeersRestart& event);
    void on(const RunEnded& event);
    void on(const Fenced& event);
    void on(const BarrierPassed& event);
    void on(const GroupStarted& event);
    void on(const GroupStartFailed& event);
    void on(const WorkerExited& event);
    void on(const WorkerStuck& event);
    void on(const SignalReceived& event);
    void on(const TreesGone& event);
    void on(const TimerFired& event);

    void begin_attempt(JoinRound::Cause cause);
    void restart_with_others(StopReason reason, const std::string& text);
    bool stopping() const { return state_ == State::stopping || state_ == State::killing; }
    void set_alive(const std::vector<int>& pids);
    void stop_workers(StopReason reason, int signo);
    void stop_workers(StopReason reason, int signo, std::chrono::milliseconds grace);
    void kill_workers();
    void workers_ended();
    void all_ended();
    bool dooms_tree(const ExitStatus& status) const;
    bool spares_trees() const { return settings_.kill_descendants == KillDescendants::never; }
    void attempt_failed();
    void finish(RunResult::Outcome outcome);
    std::vector<int> alive() const;
    std::vector<int> ended_ranks() const;  ///< of those that were started
    void say(Say::Level level, std::string text, bool always = false);

    AgentSettings settings_;
    State state_ = State::joining;
    StopReason reason_ = StopReason::failure;
    int stop_signal_ = 0;  ///< what the workers were sent
    int received_signal_ = 0;
    bool received_handled_ = true;
    int restart_count_ = 0;
    bool may_restart_ = true;
    Error error_;  ///< of a start that failed, or of a job that ended elsewhere
    std::vector<Worker> workers_;
    std::vector<WorkerFailure> failures_;
    std::vector<AgentCommand> out_;
};

}  // namespace cpprun
