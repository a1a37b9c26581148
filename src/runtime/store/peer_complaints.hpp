// SPDX-License-Identifier: BSD-3-Clause
// One line for each peer that is dropped, but not one for each of its thousand tries.
#pragma once

#include "runtime/store/store_log.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace cpprun {

/// Passes on at most one line for each topic and minute, and at most `lines_per_minute` in all; what it swallowed is
/// counted in the next line. Safe to use from several threads.
class PeerComplaints {
  public:
    explicit PeerComplaints(StoreLog log) : log_(std::move(log)) {}

    /// `topic` is what lines are counted by, usually the peer's address without its port.
    void add(const std::string& topic, const std::string& line, std::chrono::steady_clock::time_point now);
    /// A line that is never swallowed.
    void say(StoreLogLevel level, const std::string& line);

  private:
    struct Topic {
        std::chrono::steady_clock::time_point quiet_until;
        std::size_t swallowed = 0;
    };

    std::mutex mutex_;
    StoreLog log_;
    std::map<std::string, Topic> topics_;
    std::chrono::steady_clock::time_point minute_end_;
    int lines_left_ = 0;
    std::size_t swallowed_ = 0;
};

}  // namespace cpprun
