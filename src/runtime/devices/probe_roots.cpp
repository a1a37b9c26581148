// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/devices/probe_roots.hpp"

namespace cpprun {

ProbeRoots probe_roots(const Environment& environment) {
    const auto root = environment.find("CPPRUN_PROBE_ROOT");
    if (root == environment.end() || root->second.empty()) return {};
    return {.proc = root->second + "/proc",
            .sys = root->second + "/sys",
            .dev = root->second + "/dev",
            .nvml_libraries = {root->second + "/lib/libnvidia-ml.so.1"},
            .moved = true};
}

}  // namespace cpprun
