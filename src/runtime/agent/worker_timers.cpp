// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/agent/worker_timers.hpp"

#include "core/agent/signal_names.hpp"
#include "runtime/diagnostics.hpp"
#include "runtime/process/ancestry.hpp"

#include <fmt/format.h>

#include <csignal>

namespace cpprun {
namespace {

std::string chosen_path(const Environment& environment) {
    const auto given = environment.find("TORCHELASTIC_TIMER_FILE");
    if (given != environment.end() && !given->second.empty()) return given->second;
    const auto folder = environment.find("TMPDIR");
    return fresh_timer_path(folder == environment.end() || folder->second.empty() ? "/tmp" : folder->second);
}

}  // namespace

WorkerTimers::WorkerTimers(boost::asio::io_context& io, bool enabled, const Environment& environment,
                           std::function<std::vector<int>()> worker_pids)
    : io_(io), path_(enabled ? chosen_path(environment) : std::string{}), worker_pids_(std::move(worker_pids)) {}

Result<void> WorkerTimers::begin_attempt() {
    if (path_.empty()) {
        log(LogLevel::info,
            "Environment variable 'TORCHELASTIC_ENABLE_FILE_TIMER' not found. Do not start FileTimerServer.");
        return boost::outcome_v2::success();
    }
    FileTimerCallbacks callbacks;
    callbacks.on_expired = [this](const ExpiredTimer& timer) { expire(timer); };
    callbacks.on_remark = [](const std::string& text) { log(LogLevel::warning, text); };
    BOOST_OUTCOME_TRY(auto server, FileTimerServer::start(io_, path_, std::move(callbacks)));
    server_.emplace(std::move(server));
    log(LogLevel::info, "file timers of workers are read from " + path_);
    return boost::outcome_v2::success();
}

void WorkerTimers::forget(int pid) {
    if (server_) server_->forget(pid);
}

void WorkerTimers::end_attempt() {
    server_.reset();
}

void WorkerTimers::expire(const ExpiredTimer& timer) const {
    if (!descends_from(timer.pid, worker_pids_())) {
        log(LogLevel::warning, fmt::format("a file timer names process {}, which no worker of ours has started; it is "
                                           "left alone",
                                           timer.pid));
        return;
    }
    log(LogLevel::warning,
        fmt::format("file timer '{}' of process {} expired: sending {}", timer.scope, timer.pid,
                    signal_name(timer.signal)),
        true);
    ::kill(timer.pid, timer.signal);
}

}  // namespace cpprun
