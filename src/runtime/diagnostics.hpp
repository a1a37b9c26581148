// SPDX-License-Identifier: BSD-3-Clause
// What the launcher itself says, on stderr, in torchrun's shape of a log line (contract 2.7): the prefix stands on
// every line of a record, so that tools can match the message alone.
#pragma once

#include <string_view>

namespace cpprun {

enum class LogLevel { debug, info, warning, error };

/// Sets the lowest level that is shown. `level` is a Python level name as LOGLEVEL allows; unknown names mean WARNING.
void set_log_level(std::string_view level);

/// One record, each of its lines with the prefix. `always`: shown at every level (contract 4.9).
void log(LogLevel level, std::string_view text, bool always = false);

/// Text for people and tools that carries no prefix: tables, tracebacks' last lines. Ends with a line break.
void print_to_stderr(std::string_view text);

}  // namespace cpprun
