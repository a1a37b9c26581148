// SPDX-License-Identifier: BSD-3-Clause
// Starts one worker process: Boost.Process v2 on its vfork path, with what contract 3.5 asks of a worker.
#pragma once

#include "core/error.hpp"

#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

namespace cpprun {

/// One process to start.
struct SpawnSpec {
    std::string executable;                ///< path that is executed
    std::vector<std::string> argv;         ///< argv[0] first, as `ps` shows it
    std::vector<const char*> environment;  ///< "NAME=value", no null at the end; the texts outlive the call
    int stdin_fd = 0;                      ///< becomes descriptor 0 of the process; not closed here
    int stdout_fd = 1;                     ///< becomes descriptor 1 of the process; not closed here
    int stderr_fd = 2;
    int announce_fd = -1;   ///< a socket to which the process sends its pid (a pid_t) before it is executed; -1: none
    std::vector<int> cpus;  ///< CPU affinity; empty: inherited
    std::optional<rlimit> descriptor_limit;  ///< RLIMIT_NOFILE of the process; none: ours
    bool hangup_stays_ignored = false;       ///< SIGHUP came ignored to us and stays so
};

/// Starts the process in a session of its own, with an empty signal mask, default actions for the signals that we
/// handle, descriptors 0, 1 and 2 alone, and SIGKILL when this thread's process dies. Returns its pid; the caller
/// reaps it. Errors name the executable: kinds not_found (ENOENT), not_executable (EACCES, ENOEXEC) and failed.
/// Must be called from the thread that lives as long as the process: the kernel ties the parent-death signal to it.
Result<pid_t> spawn(const SpawnSpec& spec);

/// The same, but the process begins in the cgroup (v2) whose directory is open as `cgroup`.
Result<pid_t> spawn_in_cgroup(const SpawnSpec& spec, int cgroup);

/// As fork(), into that cgroup; -1 and errno where the system does not allow it. In the child only what is safe in a
/// signal handler may be called.
pid_t fork_into_cgroup(int cgroup);

}  // namespace cpprun
