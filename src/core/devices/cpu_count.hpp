// SPDX-License-Identifier: BSD-3-Clause
// How many CPUs this process may use, for --nproc-per-node=cpu and auto (contract 1.4, user case B26).
#pragma once

#include "core/host_facts.hpp"

#include <string>

namespace cpprun {

/// What limits the number of CPUs.
enum class CpuCountRule {
    quota,     ///< affinity mask and cgroup quota, whichever is smaller
    affinity,  ///< affinity mask alone, as torchrun counts
};

/// A number of CPUs and where it comes from.
struct CpuCount {
    int count = 1;
    std::string reason;  ///< fits in brackets, e.g. "affinity mask of 4 CPUs, quota of 1.5 CPUs in /…/cpu.max"
};

/// Counts the usable CPUs: the affinity mask, or all online CPUs where the mask is not known; with CpuCountRule::quota
/// at most the quota rounded up to a whole CPU. Never less than 1. Never fails.
CpuCount count_cpus(const CpuFacts& facts, CpuCountRule rule);

}  // namespace cpprun
