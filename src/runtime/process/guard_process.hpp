// SPDX-License-Identifier: BSD-3-Clause
// What the guards of agents and of workers have in common: forked processes that outlive what they watch.
#pragma once

#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"

#include <cstdint>
#include <sys/types.h>
#include <utility>

namespace cpprun {

/// How a guard is seen in `ps`, by name and by command line: neither cpprun's name nor the script's stands in there, so
/// that `pkill -9 -f` with either ends the job and leaves those who tidy up.
inline constexpr const char* guard_name = "worker-guard";

/// Two ends that carry whole messages; both are closed by exec.
Result<std::pair<UniqueFd, UniqueFd>> make_channel();

/// In a child just forked: a session of its own, all signals held back, the name. Only plain system calls.
void leave_session();

/// Nothing that can be ignored ends this process; SIGCHLD alone is held back still. Only plain system calls.
void ignore_signals();

/// Closes all descriptors but `kept` ones, which must be in rising order. Only plain system calls.
void close_all_but(const int* kept, int count);

/// Milliseconds for poll() until `until`, in nanoseconds of the steady clock; -1 (no end) for 0.
int milliseconds_left(std::int64_t until);

/// Nanoseconds of the steady clock, which all processes of a machine share.
std::int64_t steady_now();

}  // namespace cpprun
