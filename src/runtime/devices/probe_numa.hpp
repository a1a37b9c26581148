// SPDX-License-Identifier: BSD-3-Clause
// Fills NumaFacts from /sys. Asked for only with --numa-binding.
#pragma once

#include "core/host_facts.hpp"
#include "runtime/devices/probe_roots.hpp"

#include <string>
#include <vector>

namespace cpprun {

/// Reads NUMA nodes (node*/cpulist), per CPU package, thread siblings and the CPUs that share its largest-level data or
/// unified cache, and for each PCI address in `pci_addresses` (function 0 of it) its numa_node. Never fails: what
/// cannot be read is left out. Source of the formats: the kernel's ABI documents sysfs-devices-system-cpu and -node.
NumaFacts probe_numa(const std::vector<std::string>& pci_addresses, const ProbeRoots& roots = {});

}  // namespace cpprun
