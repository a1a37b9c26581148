// SPDX-License-Identifier: BSD-3-Clause
// Durations as cpprun's own options take them.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace cpprun {

/// Reads "30ms", "0.5s" or a plain number of seconds, from 0 to `max`, rounded to a millisecond; none for all else.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text,
                                                        std::chrono::milliseconds max = std::chrono::hours(1));

}  // namespace cpprun
