// SPDX-License-Identifier: BSD-3-Clause
// How a child ended.
#pragma once

#include "core/agent/exit_status.hpp"

#include <optional>
#include <sys/types.h>

namespace cpprun {

/// How this child of ours ended, without reaping it; nothing while it runs, and when it is no child of ours. Plain
/// system calls only.
std::optional<ExitStatus> status_of_child(pid_t pid);

}  // namespace cpprun
