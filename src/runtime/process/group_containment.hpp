// SPDX-License-Identifier: BSD-3-Clause
// The last tier: a worker's tree is who is in its session. A process that has made a session of its own escapes.
#pragma once

#include "runtime/process/adopted.hpp"
#include "runtime/process/agent_guard.hpp"
#include "runtime/process/containment.hpp"

namespace cpprun {

class GroupContainment final : public Containment {
  public:
    /// Starts the guard of this process, which kills the workers' process groups when this process dies.
    static Result<std::unique_ptr<Containment>> open();

    ContainmentTier tier() const override { return ContainmentTier::group; }
    std::string description() const override;
    Result<std::unique_ptr<ContainedWorker>> start(const SpawnSpec& spec) override;
    std::vector<std::vector<pid_t>> trees(const std::vector<const ContainedWorker*>& workers) const override;
    void kill(const std::vector<ContainedWorker*>& workers) override;
    void forget() override { guard_->forget(); }
    void lease_until(std::chrono::steady_clock::time_point time) override { guard_->lease_until(time); }
    void tend(const std::vector<pid_t>& workers) override;

  private:
    explicit GroupContainment(std::unique_ptr<AgentGuard> guard) : guard_(std::move(guard)) {}

    Adopted adopted_;
    std::unique_ptr<AgentGuard> guard_;
};

}  // namespace cpprun
