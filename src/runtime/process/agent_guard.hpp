// SPDX-License-Identifier: BSD-3-Clause
// A small process that outlives its agent by a moment: it kills the workers when the agent is dead, or when the agent
// has stood still for so long that the other nodes of the job may go on without it.
#pragma once

#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"

#include <chrono>
#include <memory>
#include <sys/types.h>

namespace cpprun {

class AgentGuard {
  public:
    /// Forks. To be called while the process has one thread. The guard has a session of its own, ignores every signal
    /// that can be ignored, and holds no descriptor of the agent's but stderr.
    static Result<std::unique_ptr<AgentGuard>> start();
    AgentGuard(const AgentGuard&) = delete;
    AgentGuard& operator=(const AgentGuard&) = delete;
    /// Ends the guard, which kills nobody then.
    ~AgentGuard();

    /// The process group `group` dies with the agent, or with its lease.
    void watch(pid_t group);
    /// The groups watched so far are nobody's business any more. To be called before their leaders are reaped.
    void forget();
    /// Unless it is told otherwise before, the guard kills what it watches at this time, and forgets it.
    void lease_until(std::chrono::steady_clock::time_point time);

    pid_t pid() const { return pid_; }

  private:
    AgentGuard(pid_t pid, UniqueFd channel) : pid_(pid), channel_(std::move(channel)) {}

    pid_t pid_;
    UniqueFd channel_;
};

}  // namespace cpprun
