// SPDX-License-Identifier: BSD-3-Clause
// run.json: what a run was, and where each of its logs is (docs/logs.md).
#pragma once

#include "core/report/chronicle.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// `configuration` is JSON text, as --print-config shows it. `result` is null while the run goes on.
std::string run_index(const ChronicleRun& run, const LogConfig& logs, std::string_view configuration,
                      const std::vector<RoundHistory>& rounds, const RunResult* result);

/// Whether a run leaves an index: its log folder was asked for, or holds files of one of its `nproc` workers by
/// --redirects or --tee.
bool leaves_run_index(const LogConfig& logs, int nproc);

}  // namespace cpprun
