// SPDX-License-Identifier: BSD-3-Clause
// Who started whom, as /proc tells it.
#pragma once

#include <sys/types.h>
#include <vector>

namespace cpprun {

/// Whether `pid` is one of `ancestors` or was started by one of them, directly or through others that still live.
/// False when the chain cannot be read. Bounded, whatever /proc shows.
bool descends_from(pid_t pid, const std::vector<pid_t>& ancestors);

}  // namespace cpprun
