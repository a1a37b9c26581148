// SPDX-License-Identifier: BSD-3-Clause
// What is said at the end of a run, on stderr and in the launcher's own error file (contract 4.9, 6.4, 6.5).
#pragma once

#include "core/agent/agent_events.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"
#include "core/report/chronicle.hpp"

#include <string>
#include <vector>

namespace cpprun {

/// What else is known at the end of a run.
struct RunEvidence {
    std::vector<RoundHistory> rounds = {};
    std::string log_directory = {};  ///< of the run; empty: there is none, or nothing was in it
    bool log_directory_was_asked_for = false;
    std::vector<JobFailure> job_failures = {};  ///< of all nodes
};

/// Prints what `result` calls for and writes TORCHELASTIC_ERROR_FILE of our own environment, where it is set.
void report_run(const RunResult& result, const LaunchConfig& config, const HostFacts& host,
                const RunEvidence& evidence);

/// Prints "cpprun: error: …" and the hint; the program's name is the one it was called by.
void report_error(const Error& error, const std::string& program_name);

}  // namespace cpprun
