// SPDX-License-Identifier: BSD-3-Clause
// What the launcher itself says, on stderr, in torchrun's shape of a log line (contract 2.7): the prefix stands on
// every line of a record, so that tools can match the message alone.
#pragma once

#include <chrono>
#include <string_view>

namespace cpprun {

enum class LogLevel { debug, info, warning, error };

/// Sets the lowest level that is shown. `level` is a Python level name as LOGLEVEL allows; unknown names mean WARNING.
void set_log_level(std::string_view level);

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
