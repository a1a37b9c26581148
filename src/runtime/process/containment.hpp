// SPDX-License-Identifier: BSD-3-Clause
// Workers in a container of some kind, so that nothing that they start is left behind. docs/processes.md describes the
// three kinds ("tiers") and what each of them holds.
#pragma once

#include "core/agent/exit_status.hpp"
#include "core/error.hpp"
#include "core/launch_config.hpp"
#include "runtime/os/unique_fd.hpp"
#include "runtime/process/spawn.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cpprun {

/// One worker and its tree: what it has started, directly or through others.
class ContainedWorker {
  public:
    virtual ~ContainedWorker() = default;

    /// Waits until the worker runs. To be called once, before anything else. Errors as those of spawn().
    virtual Result<void> await_start() = 0;
    /// The worker's own process, leader of a session and of a process group of that number.
    virtual pid_t pid() const = 0;
    /// A descriptor that becomes readable when ended() may have an answer. May be called once.
    virtual Result<UniqueFd> watch() = 0;
    /// How the worker's own process ended; nothing while it runs. It is not reaped.
    virtual std::optional<ExitStatus> ended() = 0;
    /// What runs of its tree, without the worker itself.
    virtual std::vector<pid_t> tree() const = 0;
    /// SIGKILL for the worker and its tree. Does not wait; what is forked meanwhile may need another call.
    virtual void kill() = 0;
    /// Reaps the worker, which has ended if it can be killed, and lets go of what is left of its tree.
    virtual void release() = 0;
};

/// What all workers of a launch are started in. It also sees to it that they die with this process.
class Containment {
  public:
    virtual ~Containment() = default;

    virtual ContainmentTier tier() const = 0;
    /// For people: what it is, and where.
    virtual std::string description() const = 0;
    /// Starts a worker, which may be on its way only: await_start() has the last word. What `spec` refers to may go
    /// when this returns. To be called on the thread that lives as long as the process. Errors as those of spawn().
    virtual Result<std::unique_ptr<ContainedWorker>> start(const SpawnSpec& spec) = 0;
    /// ContainedWorker::tree() of each of them, in order, looked for together.
    virtual std::vector<std::vector<pid_t>> trees(const std::vector<const ContainedWorker*>& workers) const;
    /// ContainedWorker::kill() for all of them.
    virtual void kill(const std::vector<ContainedWorker*>& workers);
    /// The workers started so far are about to be released.
    virtual void forget() = 0;
    /// All workers are killed at this time, even by others than us, unless it is told otherwise before.
    virtual void lease_until(std::chrono::steady_clock::time_point time) = 0;
    /// A child of ours has changed its state (SIGCHLD): reaps strangers that fell to us, and replaces guards that were
    /// killed. `workers` are those not yet released.
    virtual void tend(const std::vector<pid_t>& workers) = 0;
};

/// The best containment that the system allows, or the one that is asked for. To be called while the process has one
/// thread, as it holds back SIGCHLD. `refusals` gets a line for each tier that would have been better, with the reason.
/// An error if what is asked for is not to be had.
Result<std::unique_ptr<Containment>> open_containment(std::optional<ContainmentTier> asked,
                                                      std::vector<std::string>& refusals);

/// "cgroup", "guard" or "group", as the option --containment calls it.
std::string tier_name(ContainmentTier tier);

}  // namespace cpprun
