// SPDX-License-Identifier: BSD-3-Clause
// The failure table that ends a failed run, byte for byte as tools look for it (contract 6.3, 6.4).
#pragma once

#include "core/agent/exit_status.hpp"
#include "core/report/error_file.hpp"
#include "core/report/failure_evidence.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

/// A worker that ended badly.
struct WorkerFailure {
    int local_rank = 0;
    int global_rank = 0;
    int pid = 0;
    ExitStatus status;
    std::int64_t timestamp = 0;         ///< epoch seconds: of the error file, else when the end was noticed
    std::optional<ErrorRecord> record;  ///< what the worker wrote, if it is usable
    std::string error_file;             ///< its path; empty when there is no usable file
    bool after_stop_signal = false;     ///< it ended after the agent had asked it to stop
    std::optional<std::chrono::milliseconds> age = {};  ///< from its group's start to its end; none: not known
    FailureEvidence evidence = {};
    std::optional<std::chrono::milliseconds> hung = {};  ///< it was silent for so long that this counts as its failure
};

/// Index of the root cause: the smallest timestamp, and of equal ones the first recorded. `failures` is not empty.
std::size_t root_cause(const std::vector<WorkerFailure>& failures);

/// The text in the table's "traceback" field, also of a worker that left no record.
std::string failure_message(const WorkerFailure& failure);

/// `failures` in the order of recording; `times` are their times as "YYYY-MM-DD_HH:MM:SS", local, one each; `host` is
/// this machine's name. The text begins with the upper rule and ends without a line break. Control characters in
/// workers' texts are left out.
std::string failure_table(const std::string& title, const std::vector<WorkerFailure>& failures,
                          const std::vector<std::string>& times, const std::string& host);

/// One sentence that may help, or empty: all workers that failed by themselves ended with exit code 2 within
/// refusal_time of their start, as argparse does when it refuses a script's arguments (user case B05).
std::string failure_hint(const std::vector<WorkerFailure>& failures);
inline constexpr std::chrono::seconds refusal_time{10};

}  // namespace cpprun
