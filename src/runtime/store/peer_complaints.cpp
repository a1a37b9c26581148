// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/store/peer_complaints.hpp"

#include <utility>

namespace cpprun {
namespace {

constexpr std::chrono::minutes quiet_time{1};
constexpr int lines_per_minute = 20;
constexpr std::size_t topics_max = 256;

std::string with_count(const std::string& line, std::size_t swallowed) {
    if (swallowed == 0) return line;
    return line + " (" + std::to_string(swallowed) + " more of these were not shown)";
}

}  // namespace

void PeerComplaints::add(const std::string& topic, const std::string& line, std::chrono::steady_clock::time_point now) {
    const std::scoped_lock lock(mutex_);
    if (now >= minute_end_) {
        minute_end_ = now + quiet_time;
        lines_left_ = lines_per_minute;
        if (topics_.size() > topics_max) topics_.clear();
    }
    const bool known = topics_.contains(topic);
    if (!known && (topics_.size() > topics_max || lines_left_ == 0)) {
        ++swallowed_;
        return;
    }
    Topic& entry = topics_[topic];
    if (known && now < entry.quiet_until) {
        ++entry.swallowed;
        return;
    }
    --lines_left_;
    entry.quiet_until = now + quiet_time;
    if (log_)
        log_(StoreLogLevel::warning,
             with_count(line, std::exchange(entry.swallowed, 0) + std::exchange(swallowed_, 0)));
}

void PeerComplaints::say(StoreLogLevel level, const std::string& line) {
    const std::scoped_lock lock(mutex_);
    if (log_) log_(level, line);
}

}  // namespace cpprun
