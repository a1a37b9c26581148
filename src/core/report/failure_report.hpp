// SPDX-License-Identifier: BSD-3-Clause
// One screen about a failed run, and the same as JSON (docs/failures.md): which rank failed first, of what, and what
// merely followed. It stands after torchrun's table, which failure_summary.hpp makes.
#pragma once

#include "core/report/chronicle.hpp"
#include "core/report/failure_summary.hpp"
#include "core/report/peer_records.hpp"
#include "core/report/worker_stacks.hpp"

#include <string>
#include <vector>

namespace cpprun {

struct FailureReportInput {
    std::string script;                    ///< what was run
    std::string host;                      ///< of this node
    std::vector<WorkerFailure> failures;   ///< in the order of their ends; not empty
    std::vector<WorkerHistory> workers{};  ///< of the last round, by local rank; may be empty
    int first_rank = 0;                    ///< global rank of local rank 0
    int restarts_used = 0;
    int max_restarts = 0;
    std::string ended_by{};                  ///< "SIGTERM": that signal has ended the run; empty: its failures have
    std::string log_directory{};             ///< of the run, where something is in it; else empty
    std::vector<JobFailure> job_failures{};  ///< of all nodes in this round, in their order; empty: not known
    std::vector<RanksAt> places{};           ///< of all nodes; empty: those of `evidence`
    std::vector<HangEvidence> evidence{};    ///< what the workers were doing, the latest last
};

/// What a failure is in the story of the run.
enum class FailureClass {
    cause,        ///< it failed by itself
    consequence,  ///< it failed because a peer had
    stopped,      ///< the launcher stopped it
};

struct ClassifiedFailure {
    std::size_t index = 0;  ///< in the input's failures
    FailureClass kind = FailureClass::cause;
    std::string said;       ///< its exception or last line, safe to show; may be empty
    std::string exception;  ///< the exception's name alone; empty: there is none
    std::string because{};  ///< of a known error
};

struct FailureStory {
    std::vector<ClassifiedFailure> all;  ///< in the order of the input
    std::size_t root = 0;                ///< index of the root cause in `all`
    std::vector<int> alike;              ///< global ranks that failed as the root cause did, itself included, sorted
    std::vector<int> ended_early;        ///< global ranks that ended with 0 before all failures, which only followed
};

FailureStory tell_failures(const FailureReportInput& input);

/// 25 lines at most; ends with the line "verdict   : …", without a line break.
std::string failure_report(const FailureReportInput& input, const FailureStory& story);

/// The same for programs, with all ranks: docs/failures.md describes it.
std::string failure_json(const FailureReportInput& input, const FailureStory& story);

/// "0-3, 7".
std::string rank_ranges(const std::vector<int>& sorted_ranks);

}  // namespace cpprun
