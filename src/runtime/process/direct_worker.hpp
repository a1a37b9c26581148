// SPDX-License-Identifier: BSD-3-Clause
// A contained worker that is our own child.
#pragma once

#include "runtime/process/containment.hpp"

namespace cpprun {

class DirectWorker : public ContainedWorker {
  public:
    explicit DirectWorker(pid_t pid) : pid_(pid) {}

    Result<void> await_start() override { return boost::outcome_v2::success(); }
    pid_t pid() const override { return pid_; }
    Result<UniqueFd> watch() override;
    std::optional<ExitStatus> ended() override;
    void release() override;

  private:
    pid_t pid_;
};

}  // namespace cpprun
