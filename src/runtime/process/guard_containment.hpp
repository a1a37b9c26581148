// SPDX-License-Identifier: BSD-3-Clause
// The second tier: a guard process for each worker, and this process as a second net below which nothing falls.
#pragma once

#include "runtime/process/adopted.hpp"
#include "runtime/process/containment.hpp"
#include "runtime/process/worker_guard.hpp"

namespace cpprun {

class GuardContainment final : public Containment {
  public:
    /// Makes this process a subreaper. An error where the kernel does not tell a process's children.
    static Result<std::unique_ptr<Containment>> open();
    ~GuardContainment() override;

    ContainmentTier tier() const override { return ContainmentTier::guard; }
    std::string description() const override;
    Result<std::unique_ptr<ContainedWorker>> start(const SpawnSpec& spec) override;
    void forget() override {}
    void lease_until(std::chrono::steady_clock::time_point time) override;
    void tend(const std::vector<pid_t>& workers) override;

    /// Our children that have not fallen to us: the guards, and workers whose guard was killed.
    std::vector<pid_t> own() const;
    const Adopted& adopted() const { return adopted_; }

  private:
    GuardContainment() = default;

    Adopted adopted_;
    std::vector<std::weak_ptr<WorkerGuard>> guards_;
    std::optional<std::chrono::steady_clock::time_point> lease_;
};

}  // namespace cpprun
