// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/diagnostics.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <string>
#include <unistd.h>

namespace cpprun {
namespace {

spdlog::level::level_enum lowest_shown = spdlog::level::warn;

spdlog::logger& logger() {
    static spdlog::logger instance = [] {
        auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
        spdlog::logger made("cpprun", std::move(sink));
        made.set_level(spdlog::level::trace);
        made.set_pattern("%^%L%m%d %H:%M:%S.%f %P %n]%$ %v");
        made.flush_on(spdlog::level::trace);
        return made;
    }();
    return instance;
}

spdlog::level::level_enum as_spdlog(LogLevel level) {
    switch (level) {
        case LogLevel::debug:
            return spdlog::level::debug;
        case LogLevel::info:
            return spdlog::level::info;
        case LogLevel::warning:
            return spdlog::level::warn;
        case LogLevel::error:
            return spdlog::level::err;
    }
    return spdlog::level::err;
}

}  // namespace

void set_log_level(std::string_view level) {
    if (level == "DEBUG" || level == "NOTSET") {
        lowest_shown = spdlog::level::debug;
    } else if (level == "INFO") {
        lowest_shown = spdlog::level::info;
    } else if (level == "ERROR") {
        lowest_shown = spdlog::level::err;
    } else if (level == "CRITICAL" || level == "FATAL") {
        lowest_shown = spdlog::level::critical;
    } else {
        lowest_shown = spdlog::level::warn;
    }
}

void log(LogLevel level, std::string_view text, bool always) {
    const spdlog::level::level_enum wanted = as_spdlog(level);
    if (!always && wanted < lowest_shown) return;
    while (true) {
        const std::size_t end = text.find('\n');
        logger().log(wanted, "{}", text.substr(0, end));
        if (end == std::string_view::npos) return;
        text.remove_prefix(end + 1);
    }
}

void print_to_stderr(std::string_view text) {
    std::string line(text);
    line += '\n';
    std::size_t done = 0;
    while (done < line.size()) {
        const ssize_t put = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return;
        done += static_cast<std::size_t>(put);
    }
}

}  // namespace cpprun
