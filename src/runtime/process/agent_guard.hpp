// SPDX-License-Identifier: BSD-3-Clause
// A small process that outlives its agent by a moment: it kills the workers when the agent is dead, or when the agent
// has stood still for so long that the other nodes of the job may go on without it.
#pragma once

#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"
#include "runtime/process/cgroup.hpp"

#include <chrono>
#include <memory>
#include <sys/types.h>
#include <vector>

namespace cpprun {

class AgentGuard {
  public:
    /// Forks. The guard has a session of its own, ignores every signal that can be ignored, and holds no descriptor of
    /// the agent's but the channel between them. Without a `tree` it kills the process groups that it is told; with
    /// one, all that is in the tree, which it removes afterwards. The tree must outlive this object.
    static Result<std::unique_ptr<AgentGuard>> start(const CgroupTree* tree = nullptr);
    AgentGuard(const AgentGuard&) = delete;
    AgentGuard& operator=(const AgentGuard&) = delete;
    /// Ends the guard, which kills nobody then.
    ~AgentGuard();

    /// For SpawnSpec::announce_fd: the guard watches the process's group before it can have started anything.
    int announce_fd() const { return channel_.get(); }
    /// The process group `group` dies with the agent, or with its lease.
    void watch(pid_t group);
    /// The groups watched so far are nobody's business any more. To be called before their leaders are reaped.
    void forget();
    /// Unless it is told otherwise before, the guard kills what it watches at this time, and forgets it.
    void lease_until(std::chrono::steady_clock::time_point time);
    /// If somebody has killed the guard: reaps it, starts another and tells it what this one knew.
    void renew_if_dead();

    pid_t pid() const { return pid_; }

  private:
    AgentGuard(pid_t pid, UniqueFd channel, const CgroupTree* tree)
        : pid_(pid), channel_(std::move(channel)), tree_(tree) {}

    pid_t pid_;
    UniqueFd channel_;
    const CgroupTree* tree_;
    std::vector<pid_t> groups_;
    std::int64_t until_ = 0;
};

}  // namespace cpprun
