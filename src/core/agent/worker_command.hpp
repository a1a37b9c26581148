// SPDX-License-Identifier: BSD-3-Clause
// What a worker executes (contract 1.7), and what the reports call it (contract 4.9, 6.4).
#pragma once

#include "core/launch_config.hpp"

#include <string>
#include <vector>

namespace cpprun {

/// argv of the worker with this local rank, its executable first; macros are replaced as contract 1.7 says: in every
/// argument after the executable. With --no-python that leaves SCRIPT itself as it was written.
std::vector<std::string> worker_argv(const ProgramConfig& program, int local_rank);

/// "of binary: X" in the line that names a failed attempt; "of fn: …" with --run-path.
std::string binary_description(const ProgramConfig& program);

/// The title of the failure table, without " FAILED".
std::string report_title(const ProgramConfig& program);

/// The executable's basename, as INFO lines and events name the entry point.
std::string entrypoint_name(const ProgramConfig& program);

}  // namespace cpprun
