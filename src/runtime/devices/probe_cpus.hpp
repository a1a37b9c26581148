// SPDX-License-Identifier: BSD-3-Clause
// Fills CpuFacts from the kernel.
#pragma once

#include "core/host_facts.hpp"
#include "runtime/devices/probe_roots.hpp"

namespace cpprun {

/// Reads this process's affinity mask (sched_getaffinity; never from a file) and the tightest CPU quota among its
/// cgroup and all of that one's ancestors, v2 (cpu.max) and v1 (cpu.cfs_quota_us, cpu.cfs_period_us). Never fails: what
/// cannot be read is not known. Source of the formats: the kernel's admin-guide/cgroup-v2.rst and
/// scheduler/sched-bwc.rst.
CpuFacts probe_cpus(const ProbeRoots& roots = {});

}  // namespace cpprun
