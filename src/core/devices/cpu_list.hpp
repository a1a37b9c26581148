// SPDX-License-Identifier: BSD-3-Clause
// The kernel's list format for sets of CPUs, "0-3,8-11" (Documentation/admin-guide/cputopology.rst).
#pragma once

#include "core/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// The highest CPU number that parse_cpulist accepts; Linux builds for at most 8192 CPUs today.
constexpr int cpu_id_max = 65535;

/// Reads "0-3,8" with an optional line break at its end. Ascending, without repeats; empty text is the empty set.
/// Error, ErrorKind::failed: anything else, and numbers above cpu_id_max.
Result<std::vector<int>> parse_cpulist(std::string_view text);

/// Writes an ascending list of CPUs as "0-3,8"; the empty list is "".
std::string format_cpulist(const std::vector<int>& cpus);

}  // namespace cpprun
