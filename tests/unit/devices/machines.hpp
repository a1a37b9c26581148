// SPDX-License-Identifier: BSD-3-Clause
// Machines as plain data, for the tests of core/devices.
#pragma once

#include "core/host_facts.hpp"

#include <numeric>

namespace cpprun::machines {

inline std::vector<int> cpu_range(int first, int last) {
    std::vector<int> cpus(static_cast<std::size_t>(last - first + 1));
    std::iota(cpus.begin(), cpus.end(), first);
    return cpus;
}

inline CpuFacts cpus(int count) {
    return {.affinity = cpu_range(0, count - 1), .online = 64};
}

/// Devices of one kind with UUIDs GPU-a0…, GPU-b1…, and PCI buses 10, 11, … (hexadecimal).
inline DeviceFacts devices(int count, DeviceKind kind = DeviceKind::cuda) {
    DeviceFacts facts;
    for (int i = 0; i < count; ++i) {
        const std::string uuid = std::string("GPU-") + static_cast<char>('a' + i) + std::to_string(i) + "00-1234";
        facts.devices.push_back({kind, i, uuid, "0000:1" + std::to_string(i) + ":00.0", {}});
    }
    facts.looked_at = {"/proc/driver/nvidia/gpus: not there", "/dev/nvidia0: not there", "NVML: not loaded",
                       "/sys/class/kfd: not there"};
    return facts;
}

/// Two packages of two NUMA nodes each, four cores of two threads in each node: CPU c and c+16 are one core. Two cores
/// share a largest-level cache.
inline NumaFacts two_sockets() {
    NumaFacts facts;
    for (int node = 0; node < 4; ++node) {
        NumaNode entry{node, cpu_range(4 * node, 4 * node + 3)};
        const auto threads = cpu_range(16 + 4 * node, 16 + 4 * node + 3);
        entry.cpus.insert(entry.cpus.end(), threads.begin(), threads.end());
        facts.nodes.push_back(entry);
    }
    for (int cpu = 0; cpu < 32; ++cpu) {
        const int core = cpu % 16;
        const int pair = core / 2 * 2;
        facts.cpus.push_back({cpu, core / 8, {core, core + 16}, {pair, pair + 1, pair + 16, pair + 17}});
    }
    return facts;
}

}  // namespace cpprun::machines
