// SPDX-License-Identifier: BSD-3-Clause
// What the launcher itself says, on stderr, in torchrun's shape of a log line (contract 2.7): the prefix stands on
// every line of a record, so that tools can match the message alone.
#pragma once

#include "core/launch_config.hpp"

#include <chrono>
#include <functional>
#include <string_view>

namespace cpprun {

enum class LogLevel { debug, info, warning, error };

/// Sets the lowest level that is shown. `level` is a Python level name as LOGLEVEL allows; unknown names mean WARNING.
void set_log_level(std::string_view level);

/// May the launcher write colours to `fd`? With ColorWhen::automatic: to a terminal that knows them, unless the user
/// has set NO_COLOR (https://no-color.org).
bool shows_color(int fd, ColorWhen when);

/// Is `fd` a terminal on which a text can be written over? False for TERM=dumb.
bool can_write_over(int fd);

/// Whether the launcher's own records have colours, decided by shows_color().
void set_color(ColorWhen when);

/// Called before each record of the calling thread, outside of any lock; an empty function ends that.
void set_before_record(std::function<void()> action);

/// One record, each of its lines with the prefix. `always`: shown at every level (contract 4.9).
void log(LogLevel level, std::string_view text, bool always = false);

/// What is waited for, and until when; shown at every level. On a terminal one line that the next call writes over and
/// the next record or end_waiting() takes away; elsewhere a record of its own.
void log_waiting(std::string_view text);
void end_waiting();

/// How often log_waiting() is worth a call: each second on a terminal, each ten seconds elsewhere.
std::chrono::milliseconds waiting_pace();

/// Text for people and tools that carries no prefix: tables, tracebacks' last lines. Ends with a line break.
void print_to_stderr(std::string_view text);

}  // namespace cpprun
