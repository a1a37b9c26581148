// SPDX-License-Identifier: BSD-3-Clause
// One table from how things ended to the process's exit code; docs/exit-codes.md is that table in words.
#pragma once

#include "core/agent/agent_events.hpp"
#include "core/error.hpp"
#include "core/launch_config.hpp"

namespace cpprun {

constexpr int exit_code(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::usage:
            return 2;
        case ErrorKind::not_executable:
            return 126;
        case ErrorKind::not_found:
            return 127;
        case ErrorKind::failed:
            return 1;
    }
    return 1;
}

/// 0 on success, 1 for any failure of workers and for a signal that was handled, unless --requeue-exit-code names
/// another code for that; with ExitCodePolicy::worker the root cause's own code, 128+n for a signal (the worker's, or
/// the one that stopped the run). Never 0 for a failed run.
inline int exit_code(const RunResult& result, const StopConfig& stop) {
    switch (result.outcome) {
        case RunResult::Outcome::succeeded:
            return 0;
        case RunResult::Outcome::not_started:
            return exit_code(result.error.kind);
        case RunResult::Outcome::ended_elsewhere:
            return 1;
        case RunResult::Outcome::signaled:
            if (stop.requeue_exit_code) return *stop.requeue_exit_code;
            return stop.exit_code == ExitCodePolicy::worker ? 128 + result.signo : 1;
        case RunResult::Outcome::workers_failed:
            break;
    }
    if (stop.exit_code == ExitCodePolicy::torchrun || result.failures.empty()) return 1;
    // A worker that hung may end with 0 when it is stopped.
    const int code = result.failures[root_cause(result.failures)].status.shell_code();
    return code == 0 ? 1 : code;
}

}  // namespace cpprun
