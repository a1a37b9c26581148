// SPDX-License-Identifier: BSD-3-Clause
// Where the probes look. Tests move all of it below one directory by the environment variable CPPRUN_PROBE_ROOT; it
// has no other use.
#pragma once

#include "core/host_facts.hpp"

#include <string>
#include <vector>

namespace cpprun {

struct ProbeRoots {
    std::string proc = "/proc";
    std::string sys = "/sys";
    std::string dev = "/dev";
    std::vector<std::string> nvml_libraries = {"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
    bool moved = false;  ///< these are not the machine's own
};

/// The machine's own roots, or with a CPPRUN_PROBE_ROOT=DIR that is not empty DIR/proc, DIR/sys and DIR/dev; NVML is
/// then taken only from DIR/lib/libnvidia-ml.so.1.
ProbeRoots probe_roots(const Environment& environment);

}  // namespace cpprun
