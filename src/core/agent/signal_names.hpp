// SPDX-License-Identifier: BSD-3-Clause
// Signal numbers and their names as Python's `signal` module spells them, since torchrun's messages use those.
#pragma once

#include "core/launch_config.hpp"

#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace cpprun {

/// "SIGTERM" for 15; "SIGRTMIN" and "SIGRTMAX" for 34 and 64; "<N/A>" for numbers without a name of their own.
std::string signal_name(int signo);

/// The name, or the number where there is none.
std::string signal_label(int signo);

/// 15 for "SIGTERM"; nothing for names that Python does not know (lower case, "TERM", "15", "SIGBOGUS").
std::optional<int> signal_number(std::string_view name);

/// As options of our own take a signal: "SIGUSR1", "USR1" or a number from 1 to 64.
std::optional<int> any_signal(std::string_view text);

/// The numbers of --signals-to-handle.
std::set<int> handled_signals(const StopConfig& config);

}  // namespace cpprun
