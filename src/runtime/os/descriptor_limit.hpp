// SPDX-License-Identifier: BSD-3-Clause
// The agent serves many connections, so it takes all descriptors it may have; workers get back what we were given.
#pragma once

#include <optional>
#include <sys/resource.h>

namespace cpprun {

/// Raises the soft limit of open descriptors to the hard one. Returns the limit as it was, for the workers; nothing
/// when it stays as it is.
std::optional<rlimit> raise_descriptor_limit();

}  // namespace cpprun
