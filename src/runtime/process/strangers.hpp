// SPDX-License-Identifier: BSD-3-Clause
// Processes that we did not start and that became our children, as all orphans of a container become those of its first
// process.
#pragma once

#include <functional>
#include <sys/types.h>

namespace cpprun {

/// Reaps all children that have ended, but for those of which `ours` says so.
void reap_strangers(const std::function<bool(pid_t)>& ours);

}  // namespace cpprun
