// SPDX-License-Identifier: BSD-3-Clause
// A job of one node: nobody to wait for.
#pragma once

#include "runtime/agent/job_meeting.hpp"
#include "runtime/agent/worker_meeting.hpp"

#include <memory>
#include <string>

namespace cpprun {

class LocalMeeting final : public JobMeeting {
  public:
    LocalMeeting(const LaunchConfig& config, std::string host_name, std::unique_ptr<WorkerMeeting> workers)
        : config_(config), host_name_(std::move(host_name)), workers_(std::move(workers)) {}

    void join(const JoinRound& wish) override;
    void enter_exit_barrier() override;
    void end(const RunResult& result, std::function<void()> done) override;

  private:
    const LaunchConfig& config_;
    std::string host_name_;
    std::unique_ptr<WorkerMeeting> workers_;
    std::int64_t round_ = 0;
};

}  // namespace cpprun
