// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/agent_machine.hpp"

#include "core/agent/signal_names.hpp"
#include "core/report/failure_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace cpprun {
namespace {

// SIGKILL works at once on whatever can be killed; with a short --shutdown-timeout the wait for that must not be so
// short that healthy machines are called stuck.
constexpr std::chrono::milliseconds abandon_time_min{2000};
// What has not died of SIGKILL by then sits in the kernel, however patient --shutdown-timeout is with those that save.
constexpr std::chrono::milliseconds abandon_time_max{30000};
// Others take this node for dead about 15 s after they last heard of it; it fences itself after 10.
constexpr std::chrono::milliseconds fence_grace{2000};
// The driver answers before; should it not, workers that have to go do not stay for it.
constexpr std::chrono::milliseconds evidence_time_max{15000};

}  // namespace

AgentMachine::AgentMachine(AgentSettings settings)
    : settings_(std::move(settings)), policy_(settings_.restart, settings_.max_restarts) {}

std::vector<AgentCommand> AgentMachine::start() {
    out_.clear();
    begin_attempt(JoinRound::Cause::start);
    return std::move(out_);
}

std::vector<AgentCommand> AgentMachine::handle(const AgentEvent& event) {
    out_.clear();
    if (state_ != State::finished) std::visit([this](const auto& e) { on(e); }, event);
    return std::move(out_);
}

std::string_view AgentMachine::phase() const {
    switch (state_) {
        case State::joining:
            return "joining";
        case State::waiting:
            return "waiting";
        case State::starting:
            return "starting";
        case State::running:
            return suspended_ ? "suspended" : "running";
        case State::settling:
            return "settling";
        case State::stopping:
            return "stopping";
        case State::killing:
            return "killing";
        case State::barrier:
            return "barrier";
        case State::finished:
            break;
    }
    return "finished";
}

void AgentMachine::begin_attempt(JoinRound::Cause cause) {
    state_ = State::joining;
    former_failures_ = std::exchange(failures_, {});
    workers_.assign(static_cast<std::size_t>(settings_.nproc), Worker{});
    out_.emplace_back(JoinRound{restart_count_, cause, policy_.spent(), free_restart_});
}

void AgentMachine::on(const RoundReady& event) {
    if (state_ != State::joining) return;
    // Restarts that this node was not there for count as well: it has taken another one's place.
    policy_.spend(std::max(0, event.place.restart_count - restart_count_));
    restart_count_ = event.place.restart_count;
    place_ = event.place;
    if (backoff_.count() == 0) {
        start_group();
        return;
    }
    state_ = State::waiting;
    out_.emplace_back(ArmTimer{AgentTimer::backoff, backoff_});
}

void AgentMachine::start_group() {
    backoff_ = {};
    state_ = State::starting;
    out_.emplace_back(StartGroup{place_});
}

void AgentMachine::on(const JoinFailed& event) {
    if (state_ != State::joining) return;
    error_ = event.error;
    finish(event.spare ? RunResult::Outcome::succeeded : RunResult::Outcome::not_started);
}

void AgentMachine::on(const RestartRefused& event) {
    if (state_ != State::joining) return;
    failures_ = std::exchange(former_failures_, {});
    say_no_restart(event.reason);
    finish(RunResult::Outcome::workers_failed);
}

void AgentMachine::on(const MembershipChanged& event) {
    restart_with_others(StopReason::membership, event.reason);
}

void AgentMachine::on(const PeersRestart& event) {
    peers_spent_ = event.spent;
    restart_with_others(StopReason::peers, event.reason);
}

// A failure of our own leads to the next round as well, and a stop by signal to none.
void AgentMachine::restart_with_others(StopReason reason, const std::string& text) {
    if (state_ != State::running && state_ != State::barrier && state_ != State::waiting) return;
    say(Say::Level::warning, fmt::format("[{}] {}; will restart worker group", settings_.role, text), true);
    stop_workers(reason, SIGTERM);
}

void AgentMachine::on(const RunEnded& event) {
    error_ = event.error;
    report_elsewhere_ = event.report;
    if (without_workers()) {
        finish(RunResult::Outcome::ended_elsewhere);
        return;
    }
    if (stopping()) {
        // What is being stopped already will not be started again.
        if (reason_ == StopReason::membership || reason_ == StopReason::peers) reason_ = StopReason::ended;
        may_restart_ = false;
        return;
    }
    say(Say::Level::error, event.error.message, true);
    stop_workers(StopReason::ended, SIGTERM);
}

void AgentMachine::on(const Fenced& event) {
    if (state_ != State::running && state_ != State::settling && state_ != State::stopping) return;
    say(Say::Level::error, fmt::format("[{}] {}; stopping the workers now", settings_.role, event.reason), true);
    if (state_ == State::stopping) {
        fenced_ = true;
        out_.emplace_back(ArmTimer{AgentTimer::grace, std::min(settings_.shutdown_timeout, fence_grace)});
        return;
    }
    stop_workers(StopReason::membership, SIGTERM, std::min(settings_.shutdown_timeout, fence_grace));
    fenced_ = true;
}

void AgentMachine::on(const BarrierPassed& /*event*/) {
    if (state_ == State::barrier) finish(RunResult::Outcome::succeeded);
}

void AgentMachine::set_alive(const std::vector<int>& pids) {
    for (std::size_t rank = 0; rank < pids.size() && rank < workers_.size(); ++rank)
        workers_[rank] = {pids[rank], true};
}

void AgentMachine::on(const GroupStarted& event) {
    if (state_ != State::starting) return;
    set_alive(event.pids);
    state_ = State::running;
    if (suspended_) out_.emplace_back(SuspendGroup{false});
}

void AgentMachine::on(const GroupStartFailed& event) {
    if (state_ != State::starting) return;
    set_alive(event.pids);
    error_ = event.error;
    stop_workers(StopReason::start_failure, SIGTERM);
}

void AgentMachine::on(const WorkerExited& event) {
    now_ = event.now;
    Worker& worker = workers_.at(static_cast<std::size_t>(event.local_rank));
    if (!worker.alive) return;
    worker.alive = false;
    const bool hung = worker.hung && stopping();
    if (!event.status.success() || hung) {
        WorkerFailure failure = event.failure;
        failure.local_rank = event.local_rank;
        failure.pid = worker.pid;
        failure.status = event.status;
        failure.after_stop_signal = stopping() && !hung;
        if (hung) {
            failure.global_rank = place_.ranks.global_base + event.local_rank;
            failure.hung = worker.hung->silent_for;
            failure.timestamp = worker.hung->epoch_seconds;
        }
        failures_.push_back(std::move(failure));
        if (state_ == State::running) {
            state_ = State::settling;
            out_.emplace_back(ArmTimer{AgentTimer::settle, settings_.settle_time});
        }
    }
    if (state_ == State::stopping) {
        // Nobody else can pass the signal on to them now.
        if (!spares_trees() && !told_by_sender_) out_.emplace_back(SignalTrees{stop_signal_, {event.local_rank}});
    } else if (state_ != State::killing) {
        if (dooms_tree(event.status)) {
            out_.emplace_back(KillTree{event.local_rank});
        } else {
            out_.emplace_back(LeaveTree{event.local_rank});
        }
    }
    if (alive().empty()) workers_ended();
}

bool AgentMachine::dooms_tree(const ExitStatus& status) const {
    if (settings_.kill_descendants == KillDescendants::by_exit_code) return !status.success();
    return settings_.kill_descendants == KillDescendants::always;
}

void AgentMachine::on(const TreesGone& /*event*/) {
    if (stopping() && alive().empty()) all_ended();
}

void AgentMachine::on(const WorkerStuck& event) {
    if (state_ != State::running && state_ != State::settling) return;
    const Worker& worker = workers_.at(static_cast<std::size_t>(event.local_rank));
    say(Say::Level::error,
        fmt::format("[{}] Worker pid={} has been in uninterruptible sleep (D-state) for {:.1f}s; the "
                    "worker group is UNHEALTHY and will not be restarted.",
                    settings_.role, worker.pid, event.since.count()));
    may_restart_ = false;
    stop_workers(StopReason::failure, SIGTERM);
}

void AgentMachine::on(const SignalReceived& event) {
    const std::string sender = event.from_terminal ? "the terminal" : event.sender;
    const std::string from = sender.empty() ? "" : " (sent by " + sender + ")";
    if (without_workers()) {
        note_signal(event);
        say(Say::Level::warning,
            fmt::format("Received {} death signal, {}{}", event.signo,
                        state_ == State::joining   ? "leaving the rendezvous"
                        : state_ == State::waiting ? "no longer waiting for the restart"
                                                   : "no longer waiting for other nodes",
                        from),
            true);
        finish(RunResult::Outcome::signaled);
        return;
    }
    if (!stopping()) {
        note_signal(event);
        // A key on the terminal reaches the launcher alone, as workers have sessions of their own.
        told_by_sender_ = settings_.sender_tells_workers && event.handled && !event.from_terminal;
        say(Say::Level::warning,
            fmt::format("Received {} death signal, shutting down workers{}{}", event.signo, from,
                        told_by_sender_ ? ", whose sender has told the workers too (--no-forward)" : ""),
            true);
        // Python turns an unhandled SIGINT into an exception, whose clean-up uses SIGTERM (contract 4.6).
        stop_workers(StopReason::signal, event.handled ? event.signo : SIGTERM);
        return;
    }
    if (reason_ != StopReason::signal) {
        // Whoever asks for the end while a failed attempt is being stopped wants no restart. The workers were told.
        reason_ = StopReason::signal;
        note_signal(event);
        say(Say::Level::warning,
            fmt::format("Received {} death signal while the workers are being stopped; there will be no restart{}",
                        event.signo, from),
            true);
        return;
    }
    const bool now = event.signo == SIGINT || event.signo == SIGQUIT;
    if (now && state_ == State::stopping) {
        say(Say::Level::warning,
            fmt::format("Received {} again: killing the workers now{}", signal_name(event.signo), from), true);
        kill_workers();
        return;
    }
    say(Say::Level::warning,
        fmt::format("Received {} again: the workers are being stopped already{}", signal_name(event.signo), from),
        true);
}

void AgentMachine::note_signal(const SignalReceived& event) {
    received_signal_ = event.signo;
    received_handled_ = event.handled;
    from_terminal_ = event.from_terminal;
}

void AgentMachine::on(const SignalToForward& event) {
    const std::string from = event.sender.empty() ? "" : " (sent by " + event.sender + ")";
    const std::string name = signal_label(event.signo);
    if (state_ != State::running && state_ != State::settling) {
        say(Say::Level::info, fmt::format("Received {}, and there are no workers to pass it on to{}", name, from));
        return;
    }
    if (settings_.sender_tells_workers) {
        say(Say::Level::info,
            fmt::format("Received {}, which the workers got from its sender (--no-forward){}", name, from));
        return;
    }
    say(Say::Level::info, fmt::format("Passing {} on to the workers{}", name, from));
    out_.emplace_back(SignalWorkers{event.signo, alive()});
}

// While workers are being stopped their time runs, and they need to run to use it.
void AgentMachine::on(const SuspensionAsked& /*event*/) {
    if (suspended_ || stopping()) return;
    suspended_ = true;
    if (settings_.stays_awake)
        say(Say::Level::warning, "Received SIGTSTP: the workers stand still until SIGCONT, the agent stays awake",
            true);
    out_.emplace_back(SuspendGroup{!settings_.stays_awake});
}

void AgentMachine::on(const Continued& /*event*/) {
    if (!std::exchange(suspended_, false)) return;
    out_.emplace_back(ContinueGroup{});
}

void AgentMachine::on(const EvidenceAsked& event) {
    if (!with_workers()) {
        say(Say::Level::warning, event.reason + ": there are no workers to look at", true);
        return;
    }
    out_.emplace_back(CollectEvidence{event.reason, event.also_of_peers});
}

void AgentMachine::on(const WorkersSilent& event) {
    if (state_ != State::running || suspended_) return;
    for (const int rank : event.local_ranks) {
        Worker& worker = workers_.at(static_cast<std::size_t>(rank));
        if (settings_.hang_fails && worker.alive) worker.hung = event;
    }
    const std::string text =
        fmt::format("{} silent for {:.1f} s, without output or heartbeat (--hang-after)", ranks_text(event.local_ranks),
                    std::chrono::duration<double>(event.silent_for).count());
    say(Say::Level::warning,
        fmt::format("[{}] {}{}", settings_.role, text,
                    settings_.hang_fails ? "" : "; the run goes on, --hang-action=fail would end the worker group"),
        true);
    out_.emplace_back(CollectEvidence{text, true});
}

void AgentMachine::on(const EvidenceCollected& /*event*/) {
    if (state_ == State::stopping && before_kill_) {
        kill_workers();
        return;
    }
    const bool hung = std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.hung; });
    if (state_ != State::running || !hung) return;
    say(Say::Level::error,
        fmt::format("[{}] Workers that hang count as failed (--hang-action=fail); stopping the worker group",
                    settings_.role),
        true);
    stop_workers(StopReason::failure, SIGTERM);
}

std::string AgentMachine::ranks_text(const std::vector<int>& local_ranks) const {
    std::vector<int> ranks;
    for (const int rank : local_ranks) ranks.push_back(place_.ranks.global_base + rank);
    return (ranks.size() == 1 ? "rank " : "ranks ") + rank_ranges(ranks) + (ranks.size() == 1 ? " is" : " are");
}

void AgentMachine::on(const TimerFired& event) {
    if (event.timer == AgentTimer::settle && state_ == State::settling) {
        stop_workers(StopReason::failure, SIGTERM);
    } else if (event.timer == AgentTimer::grace && state_ == State::stopping) {
        stop_took_too_long();
    } else if (event.timer == AgentTimer::abandon && state_ == State::killing) {
        for (const int rank : alive()) {
            Worker& worker = workers_[static_cast<std::size_t>(rank)];
            say(Say::Level::error,
                fmt::format(
                    "Process {} did not exit after SIGKILL within {}s; abandoning and continuing teardown. It is "
                    "probably in uninterruptible sleep; see /proc/{}/stack.",
                    worker.pid, abandon_time().count() / 1000, worker.pid),
                true);
            worker.alive = false;
        }
        out_.emplace_back(ReportStuck{});
        may_restart_ = false;
        all_ended();
    } else if (event.timer == AgentTimer::backoff && state_ == State::waiting) {
        start_group();
    }
}

void AgentMachine::stop_workers(StopReason reason, int signo) {
    stop_workers(reason, signo, settings_.shutdown_timeout);
}

void AgentMachine::stop_workers(StopReason reason, int signo, std::chrono::milliseconds grace) {
    if (state_ == State::settling) out_.emplace_back(CancelTimer{AgentTimer::settle});
    reason_ = reason;
    stop_signal_ = signo;
    fenced_ = before_kill_ = false;
    state_ = State::stopping;
    const std::vector<int> ranks = alive();
    if (!told_by_sender_) tell_workers(signo, ranks);
    if (std::exchange(suspended_, false)) out_.emplace_back(ContinueGroup{});
    if (grace.count() == 0) {
        kill_workers();
    } else {
        out_.emplace_back(ArmTimer{AgentTimer::grace, grace});
    }
    if (ranks.empty()) workers_ended();
}

void AgentMachine::tell_workers(int signo, const std::vector<int>& ranks) {
    for (const int rank : ranks)
        say(from_terminal_ ? Say::Level::info : Say::Level::warning,
            fmt::format("Sending process {} closing signal {}", workers_[static_cast<std::size_t>(rank)].pid,
                        signal_name(signo)),
            !from_terminal_);
    if (!ranks.empty()) out_.emplace_back(SignalWorkers{signo, ranks});
    if (const std::vector<int> ended = ended_ranks(); !ended.empty() && !spares_trees())
        out_.emplace_back(SignalTrees{signo, ended});
}

// What they were doing dies with them. A node that the others may have given up has no time for it.
void AgentMachine::stop_took_too_long() {
    if (before_kill_ || fenced_ || alive().empty()) {
        kill_workers();
        return;
    }
    before_kill_ = true;
    out_.emplace_back(CollectEvidence{
        fmt::format("{} still there {} s after {}", ranks_text(alive()),
                    std::chrono::duration_cast<std::chrono::seconds>(settings_.shutdown_timeout).count(),
                    signal_name(stop_signal_)),
        false});
    out_.emplace_back(ArmTimer{AgentTimer::grace, evidence_time_max});
}

void AgentMachine::kill_workers() {
    out_.emplace_back(CancelTimer{AgentTimer::grace});
    state_ = State::killing;
    before_kill_ = false;
    const std::vector<int> ranks = alive();
    for (const int rank : ranks)
        say(from_terminal_ ? Say::Level::info : Say::Level::warning,
            fmt::format("Unable to shutdown process {} via {}, forcefully exiting via {}",
                        workers_[static_cast<std::size_t>(rank)].pid, stop_signal_, SIGKILL),
            !from_terminal_);
    if (!ranks.empty()) out_.emplace_back(SignalWorkers{SIGKILL, ranks});
    if (!spares_trees()) out_.emplace_back(KillTrees{stop_signal_, from_terminal_});
    out_.emplace_back(ArmTimer{AgentTimer::abandon, abandon_time()});
}

// The grace period belongs to the whole tree: a wrapper that ends first does not cut its child's work short.
void AgentMachine::workers_ended() {
    if (!stopping() && failures_.empty()) {
        state_ = State::barrier;
        out_.emplace_back(EnterExitBarrier{});
    } else if (!stopping()) {
        stop_workers(StopReason::failure, SIGTERM);
    } else if (spares_trees()) {
        all_ended();
    } else {
        out_.emplace_back(AwaitTrees{});
    }
}

void AgentMachine::all_ended() {
    for (const AgentTimer timer : {AgentTimer::settle, AgentTimer::grace, AgentTimer::abandon, AgentTimer::backoff})
        out_.emplace_back(CancelTimer{timer});
    switch (reason_) {
        case StopReason::failure:
            attempt_failed();
            return;
        case StopReason::signal:
            finish(RunResult::Outcome::signaled);
            return;
        case StopReason::start_failure:
            finish(RunResult::Outcome::not_started);
            return;
        case StopReason::ended:
            finish(RunResult::Outcome::ended_elsewhere);
            return;
        case StopReason::membership:
            break;
        case StopReason::peers:
            ++restart_count_;
            if (peers_spent_) {
                policy_.agree_on(*peers_spent_);
            } else {
                policy_.spend(1);
            }
            break;
    }
    out_.emplace_back(ReleaseGroup{!spares_trees()});
    begin_attempt(JoinRound::Cause::membership);
}

void AgentMachine::attempt_failed() {
    if (!failures_.empty()) {
        const WorkerFailure& root = failures_[root_cause(failures_)];
        say(Say::Level::error,
            fmt::format("failed (exitcode: {}) local_rank: {} (pid: {}) {}", root.status.python_code(), root.local_rank,
                        root.pid, settings_.binary_description),
            true);
    }
    if (!may_restart_) {
        finish(RunResult::Outcome::workers_failed);
        return;
    }
    const RestartVerdict verdict = policy_.judge(failures_, now_);
    if (!verdict.restart) {
        if (policy_.has_rules()) say_no_restart(verdict.reason);
        finish(RunResult::Outcome::workers_failed);
        return;
    }
    say_restart(verdict);
    backoff_ = verdict.wait;
    free_restart_ = verdict.free;
    say(Say::Level::info, fmt::format("[{}] Stopping worker group", settings_.role));
    out_.emplace_back(ReleaseGroup{!spares_trees()});
    ++restart_count_;
    begin_attempt(JoinRound::Cause::failure);
}

void AgentMachine::say_no_restart(const std::string& reason) {
    say(Say::Level::warning, fmt::format("[{}] Worker group FAILED; no restart: {}", settings_.role, reason), true);
}

void AgentMachine::say_restart(const RestartVerdict& verdict) {
    const std::string left = fmt::format("{}/{} attempts left", verdict.left, settings_.max_restarts);
    if (!policy_.has_rules()) {
        say(Say::Level::info,
            fmt::format("[{}] Worker group FAILED. {}; will restart worker group", settings_.role, left));
        return;
    }
    const std::string wait =
        verdict.wait.count() == 0 ? "" : fmt::format(" in {:g} s", std::chrono::duration<double>(verdict.wait).count());
    say(Say::Level::warning,
        fmt::format("[{}] Worker group FAILED. {}; will restart worker group{}{}", settings_.role, left, wait,
                    verdict.reason.empty() ? "" : ", for free: " + verdict.reason),
        true);
}

void AgentMachine::finish(RunResult::Outcome outcome) {
    // Those that were stopped are listed by rank, in whatever order they died (contract 6.3).
    const auto stopped = std::find_if(failures_.begin(), failures_.end(),
                                      [](const WorkerFailure& failure) { return failure.after_stop_signal; });
    std::stable_sort(stopped, failures_.end(), [](const WorkerFailure& left, const WorkerFailure& right) {
        return left.local_rank < right.local_rank;
    });
    const bool well = outcome == RunResult::Outcome::succeeded;
    out_.emplace_back(ReleaseGroup{well ? settings_.kill_descendants == KillDescendants::always : !spares_trees()});
    state_ = State::finished;
    RunResult result;
    result.outcome = outcome;
    result.failures = failures_;
    result.signo = received_signal_;
    result.signal_handled = received_handled_;
    result.from_terminal = from_terminal_;
    result.error = error_;
    result.report_elsewhere = report_elsewhere_;
    result.restarts_used = restart_count_;
    out_.emplace_back(Finish{std::move(result)});
}

std::chrono::milliseconds AgentMachine::abandon_time() const {
    return std::clamp(settings_.shutdown_timeout, abandon_time_min, abandon_time_max);
}

std::vector<int> AgentMachine::alive() const {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < workers_.size(); ++rank)
        if (workers_[rank].alive) ranks.push_back(static_cast<int>(rank));
    return ranks;
}

std::vector<int> AgentMachine::ended_ranks() const {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < workers_.size(); ++rank)
        if (workers_[rank].pid != 0 && !workers_[rank].alive) ranks.push_back(static_cast<int>(rank));
    return ranks;
}

void AgentMachine::say(Say::Level level, std::string text, bool always) {
    out_.emplace_back(Say{level, std::move(text), always});
}

}  // namespace cpprun
