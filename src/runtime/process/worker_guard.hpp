// SPDX-License-Identifier: BSD-3-Clause
// A small process between the agent and one worker. All that the worker has started falls to it, as to an init
// (PR_SET_CHILD_SUBREAPER), however it has detached itself, so that it can be found and killed.
//
// One of the three may be killed at any moment. The agent: the guard kills all below itself. The worker: the guard
// tells the agent, which decides. The guard: the kernel kills the worker (parent-death signal), and what the worker had
// started falls to the agent, if that is a subreaper too.
#pragma once

#include "core/agent/exit_status.hpp"
#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"
#include "runtime/process/spawn.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <sys/types.h>

namespace cpprun {

class WorkerGuard {
  public:
    /// Forks the guard, which starts the worker. What `spec` refers to may go when this returns.
    static Result<std::unique_ptr<WorkerGuard>> start(const SpawnSpec& spec);
    WorkerGuard(const WorkerGuard&) = delete;
    WorkerGuard& operator=(const WorkerGuard&) = delete;
    /// The guard kills what is left and goes, without being waited for, unless let_go() was called.
    ~WorkerGuard();

    /// Waits until the worker runs; to be called once. Errors as those of spawn(); the guard is gone then.
    Result<void> await_start();

    pid_t pid() const { return pid_; }
    pid_t worker() const { return worker_; }
    /// Readable when ended() may have an answer, or the guard is dead.
    int channel() const { return channel_.get(); }
    /// How the worker ended; nothing while it runs, or before it was started, for all that is known. If the guard has
    /// been killed, the worker is ours, and is killed if it still runs.
    std::optional<ExitStatus> ended();
    /// Whether somebody has killed the guard, as ended() or kill() found out.
    bool dead() const { return dead_; }
    /// The guard kills the worker and all that falls to it, until nothing is left. Returns at once.
    void kill();
    /// The guard goes and kills nobody: what is left falls to the agent. The worker must have ended; it is reaped.
    void let_go();
    /// Unless it is told otherwise before, the guard acts as upon kill() at this time.
    void lease_until(std::chrono::steady_clock::time_point time);

  private:
    WorkerGuard(pid_t pid, UniqueFd channel) : pid_(pid), channel_(std::move(channel)) {}

    pid_t pid_;
    pid_t worker_ = -1;
    UniqueFd channel_;
    std::optional<ExitStatus> status_;
    bool dead_ = false;
};

}  // namespace cpprun
