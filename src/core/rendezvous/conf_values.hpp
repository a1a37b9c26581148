// SPDX-License-Identifier: BSD-3-Clause
// The numbers of --rdzv-conf, which are texts in Python's syntax: "1_000", "+5", "2.5e1".
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace cpprun {

/// The seconds that `key` stands for; `otherwise` where it is missing or no number. At least 0, at most a hundred
/// years, so that sums with a clock's time stay in bounds.
std::chrono::milliseconds conf_seconds(const std::map<std::string, std::string>& conf, const std::string& key,
                                       std::chrono::seconds otherwise);

/// The whole number that `key` stands for, at least 1; `otherwise` where it is missing or no number.
int conf_count(const std::map<std::string, std::string>& conf, const std::string& key, int otherwise);

}  // namespace cpprun
