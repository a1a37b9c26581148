// SPDX-License-Identifier: BSD-3-Clause
// Asks the machine once for what the decisions need.
#pragma once

#include "core/host_facts.hpp"

namespace cpprun {

/// Everything but accelerators and NUMA, which only some launches ask for. Never fails: what is not known is left out.
HostFacts probe_host(const char* argv0);

}  // namespace cpprun
