// SPDX-License-Identifier: BSD-3-Clause
// The first tier: a cgroup for each worker, which nothing that it starts can leave, and which the kernel kills as one.
#pragma once

#include "runtime/process/adopted.hpp"
#include "runtime/process/agent_guard.hpp"
#include "runtime/process/cgroup.hpp"
#include "runtime/process/containment.hpp"

#include <array>

namespace cpprun {

class CgroupContainment final : public Containment {
  public:
    /// Makes the launch's cgroup, and starts two guards that kill and remove it when this process dies: should
    /// somebody kill this process and one of them together, there is the other.
    static Result<std::unique_ptr<Containment>> open();
    /// Removes the launch's cgroup. What is left in there of workers that were released has been taken out of it; the
    /// rest is killed.
    ~CgroupContainment() override;

    ContainmentTier tier() const override { return ContainmentTier::cgroup; }
    std::string description() const override;
    Result<std::unique_ptr<ContainedWorker>> start(const SpawnSpec& spec) override;
    void forget() override {}
    void lease_until(std::chrono::steady_clock::time_point time) override;
    void tend(const std::vector<pid_t>& workers) override;

  private:
    explicit CgroupContainment(CgroupTree tree) : tree_(std::move(tree)) {}

    Adopted adopted_;
    CgroupTree tree_;
    std::array<std::unique_ptr<AgentGuard>, 2> guards_;
};

}  // namespace cpprun
