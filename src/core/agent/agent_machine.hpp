// SPDX-License-Identifier: BSD-3-Clause
// The agent's decisions: when to restart, when to stop whom, when the run is over, and what to say about it. A pure
// function of what has happened so far; docs/architecture.md draws its states.
#pragma once

#include "core/agent/agent_events.hpp"
#include "core/agent/restart_policy.hpp"
#include "core/launch_config.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// What the machine must know of a launch.
struct AgentSettings {
    int nproc = 1;
    int max_restarts = 0;
    RestartConfig restart;
    bool stays_awake = false;  ///< on SIGTSTP: other nodes wait for this agent, or nobody could continue it
    std::string role = "default";
    std::string binary_description;  ///< "of binary: python3"
    std::chrono::milliseconds settle_time{30};
    std::chrono::milliseconds shutdown_timeout{30000};
    KillDescendants kill_descendants = KillDescendants::by_exit_code;
    bool sender_tells_workers = false;  ///< whoever signals the agent signals the workers too: nothing is passed on
    bool hang_fails = false;            ///< --hang-action=fail
};

class AgentMachine {
  public:
    explicit AgentMachine(AgentSettings settings);

    /// The commands that begin the run. Called once.
    std::vector<AgentCommand> start();

    /// What to do about `event`. After a Finish command no event is expected any more; further ones are ignored.
    std::vector<AgentCommand> handle(const AgentEvent& event);

    /// The name of the state it is in, as docs/architecture.md has it.
    std::string_view phase() const;

  private:
    enum class State {
        joining,   ///< JoinRound was asked for
        waiting,   ///< the round is complete; the workers are held back for a while
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
        std::optional<WorkersSilent> hung = {};
    };

    void on(const RoundReady& event);
    void on(const JoinFailed& event);
    void on(const RestartRefused& event);
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
    void on(const SignalToForward& event);
    void on(const SuspensionAsked& event);
    void on(const Continued& event);
    void on(const EvidenceAsked& event);
    void on(const WorkersSilent& event);
    void on(const EvidenceCollected& event);
    // For the chronicle alone.
    void on(const PlacesKnown& /*event*/) {}
    void on(const LastWordsFound& /*event*/) {}
    void on(const TimerFired& event);

    void begin_attempt(JoinRound::Cause cause);
    void start_group();
    void restart_with_others(StopReason reason, const std::string& text);
    /// Nobody has to be stopped before the run can end.
    bool without_workers() const {
        return state_ == State::joining || state_ == State::waiting || state_ == State::barrier;
    }
    bool with_workers() const { return state_ == State::running || state_ == State::settling || stopping(); }
    bool stopping() const { return state_ == State::stopping || state_ == State::killing; }
    void set_alive(const std::vector<int>& pids);
    void note_signal(const SignalReceived& event);
    void stop_workers(StopReason reason, int signo);
    void stop_workers(StopReason reason, int signo, std::chrono::milliseconds grace);
    void tell_workers(int signo, const std::vector<int>& ranks);
    void kill_workers();
    std::chrono::milliseconds abandon_time() const;
    void stop_took_too_long();
    std::string ranks_text(const std::vector<int>& local_ranks) const;
    void workers_ended();
    void all_ended();
    bool dooms_tree(const ExitStatus& status) const;
    bool spares_trees() const { return settings_.kill_descendants == KillDescendants::never; }
    void attempt_failed();
    void say_no_restart(const std::string& reason);
    void say_restart(const RestartVerdict& verdict);
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
    bool from_terminal_ = false;   ///< the received signal
    bool told_by_sender_ = false;  ///< the workers have got the received signal from whoever sent it
    bool suspended_ = false;
    bool fenced_ = false;       ///< the present stop
    bool before_kill_ = false;  ///< SIGKILL waits for evidence
    RestartPolicy policy_;
    int restart_count_ = 0;
    bool free_restart_ = false;             ///< the one that was decided last
    std::chrono::milliseconds backoff_{0};  ///< how long the next start has to wait
    RoundPlace place_;                      ///< of the round that is complete
    std::optional<int> peers_spent_;        ///< what the node that caused the stop has spent
    std::chrono::milliseconds now_{0};      ///< of the last event that had a time
    bool may_restart_ = true;
    Error error_;  ///< of a start that failed, or of a job that ended elsewhere
    std::string report_elsewhere_;
    std::vector<Worker> workers_;
    std::vector<WorkerFailure> failures_;
    std::vector<WorkerFailure> former_failures_;  ///< of the attempt before, until a round is complete
    std::vector<AgentCommand> out_;
};

}  // namespace cpprun
