// SPDX-License-Identifier: BSD-3-Clause
// Who started whom, as /proc tells it. What is said here may be out of date when it is read.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace cpprun {

/// Whether `pid` is one of `ancestors` or was started by one of them, directly or through others that still live.
/// False when the chain cannot be read. Bounded, whatever /proc shows.
bool descends_from(pid_t pid, const std::vector<pid_t>& ancestors);

/// Whether the kernel tells a process's children, which children_of() needs.
bool children_are_told();

/// The children of all threads of `pid`, zombies included. Empty when it is gone.
std::vector<pid_t> children_of(pid_t pid);

/// What `pid` has started and what that has started, as far as the chain of parents still stands; without zombies.
std::vector<pid_t> descendants_of(pid_t pid);

/// The processes of each of these sessions, in order, without their leaders and without zombies. One look at /proc.
std::vector<std::vector<pid_t>> members_of_sessions(const std::vector<pid_t>& sessions);

/// What /proc/PID/stat says.
struct ProcessState {
    char letter = '\0';  ///< 'R', 'S', 'D', 'Z', …; 0: there is no such process
    pid_t parent = 0;
    pid_t session = 0;
    std::string command;

    bool lives() const { return letter != '\0' && letter != 'Z' && letter != 'X'; }
};
ProcessState process_state(pid_t pid);

/// For people: "12 (python3), 13 (sleep)"; of a long list the first ones and a count.
std::string describe_processes(const std::vector<pid_t>& pids);

}  // namespace cpprun
