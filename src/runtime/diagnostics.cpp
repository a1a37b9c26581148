// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/diagnostics.hpp"

#include "runtime/os/whole_io.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <sys/ioctl.h>
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

bool stderr_is_terminal() {
    static const bool answer = can_write_over(STDERR_FILENO);
    return answer;
}

std::size_t terminal_width() {
    winsize size{};
    return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void write_to_stderr(std::string_view text) {
    write_whole(STDERR_FILENO, text);
}

thread_local std::function<void()> before_record;

/// The store's thread says things too.
std::mutex mutex;
bool waiting_is_shown = false;

void take_away_waiting() {
    if (!std::exchange(waiting_is_shown, false)) return;
    write_to_stderr("\r\x1b[K");
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

bool shows_color(int fd, ColorWhen when) {
    if (when != ColorWhen::automatic) return when == ColorWhen::always;
    const char* unwanted = std::getenv("NO_COLOR");
    return can_write_over(fd) && (unwanted == nullptr || *unwanted == '\0');
}

bool can_write_over(int fd) {
    const char* kind = std::getenv("TERM");
    return ::isatty(fd) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

void set_color(ColorWhen when) {
    auto& sink = dynamic_cast<spdlog::sinks::stderr_color_sink_mt&>(*logger().sinks().front());
    sink.set_color_mode(shows_color(STDERR_FILENO, when) ? spdlog::color_mode::always : spdlog::color_mode::never);
}

void set_before_record(std::function<void()> action) {
    before_record = std::move(action);
}

void log(LogLevel level, std::string_view text, bool always) {
    const spdlog::level::level_enum wanted = as_spdlog(level);
    if (!always && wanted < lowest_shown) return;
    if (before_record) before_record();
    const std::scoped_lock lock(mutex);
    take_away_waiting();
    while (true) {
        const std::size_t end = text.find('\n');
        logger().log(wanted, "{}", text.substr(0, end));
        if (end == std::string_view::npos) return;
        text.remove_prefix(end + 1);
    }
}

void log_waiting(std::string_view text) {
    if (!stderr_is_terminal()) {
        log(LogLevel::warning, text, true);
        return;
    }
    const std::scoped_lock lock(mutex);
    std::string line = "cpprun: " + std::string(text);
    // A line that wraps could not be taken back. Bytes for columns: what is cut is no more than a host's odd name.
    if (const std::size_t width = terminal_width(); line.size() >= width) line.resize(width - 1);
    write_to_stderr("\r" + line + "\x1b[K");
    waiting_is_shown = true;
}

void end_waiting() {
    const std::scoped_lock lock(mutex);
    take_away_waiting();
}

std::chrono::milliseconds waiting_pace() {
    return std::chrono::seconds(stderr_is_terminal() ? 1 : 10);
}

void print_to_stderr(std::string_view text) {
    const std::scoped_lock lock(mutex);
    take_away_waiting();
    write_to_stderr(std::string(text) + '\n');
}

}  // namespace cpprun
