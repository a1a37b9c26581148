// SPDX-License-Identifier: BSD-3-Clause
// torch's file-based timers for the workers of one attempt (contract 8.2), where TORCHELASTIC_ENABLE_FILE_TIMER=1.
#pragma once

#include "core/error.hpp"
#include "core/host_facts.hpp"
#include "runtime/timer/file_timer_server.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

class WorkerTimers {
  public:
    /// `worker_pids` names the processes whose descendants may be signalled; it is asked at each expiry.
    WorkerTimers(boost::asio::io_context& io, bool enabled, const Environment& environment,
                 std::function<std::vector<int>()> worker_pids);

    /// Makes the FIFO for a new attempt. Nothing is done when the timers are off.
    Result<void> begin_attempt();
    /// A worker ended; its timers are void.
    void forget(int pid);
    void end_attempt();

    /// What workers get as TORCHELASTIC_TIMER_FILE; empty when the timers are off.
    const std::string& path() const { return path_; }

  private:
    void expire(const ExpiredTimer& timer) const;

    boost::asio::io_context& io_;
    std::string path_;
    std::function<std::vector<int>()> worker_pids_;
    std::optional<FileTimerServer> server_;
};

}  // namespace cpprun
