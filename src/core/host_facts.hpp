// SPDX-License-Identifier: BSD-3-Clause
// The machine and the caller's surroundings as plain data. launch/probe_host.cpp fills it once; everything that
// decides (cli/, core/) reads it from here, so that a test can state any machine.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

/// Environment variables by name. Values are bytes.
using Environment = std::map<std::string, std::string>;

/// What is known about the processors this process may use.
struct CpuFacts {
    std::vector<int> affinity;         ///< ids of the CPUs in our affinity mask, ascending; empty: not known
    int online = 1;                    ///< CPUs of the whole machine, used where the mask is not known
    std::optional<double> quota_cpus;  ///< CPUs that the tightest cgroup quota (v1 or v2) grants; none: unlimited
    std::string quota_source;          ///< the file that holds that quota, for messages
};

/// How an accelerator is driven.
enum class DeviceKind { cuda, rocm, xpu };

/// One accelerator as the machine shows it, before any visibility variable is applied.
struct Device {
    DeviceKind kind = DeviceKind::cuda;
    int index = 0;                       ///< the driver's own number
    std::string uuid;                    ///< "GPU-…" where known, else empty
    std::string pci_address;             ///< "0000:3b:00.0" where known, else empty
    std::vector<std::string> mig_uuids;  ///< "MIG-…" names of its slices, where known
};

/// All accelerators found, and where we looked, so that "none found" can say so.
struct DeviceFacts {
    std::vector<Device> devices;
    std::map<std::string, int> plugin_devices;  ///< plug-in backend name ("npu") -> devices seen; names that were not
                                                ///< looked for are absent
    std::vector<std::string> looked_at;         ///< one phrase each, e.g. "/proc/driver/nvidia/gpus: not there"
};

/// NUMA layout of the machine, for --numa-binding.
struct NumaNode {
    int id = 0;
    std::vector<int> cpus;  ///< ascending
};
struct CpuTopology {
    int cpu = 0;
    int package = 0;                      ///< physical_package_id
    std::vector<int> thread_siblings;     ///< CPUs of the same physical core, itself included, ascending
    std::vector<int> largest_cache_cpus;  ///< CPUs that share its largest-level data or unified cache, ascending
};
struct NumaFacts {
    std::vector<NumaNode> nodes;
    std::vector<CpuTopology> cpus;
    std::map<std::string, int> node_of_pci;  ///< PCI address -> numa_node as /sys gives it (may be -1)
};

/// Everything the decisions need to know about where we run.
struct HostFacts {
    Environment environment;
    std::string program_name = "cpprun";  ///< basename of argv[0]
    std::string program_path;  ///< argv[0] as called, made absolute where PATH led to it; a link stays a link
    std::string working_directory;
    std::string host_name;  ///< gethostname(), short or not, as the machine gives it
    int pid = 0;
    std::string random_uuid;  ///< a fresh random UUID4 with dashes, for a run that needs an id of its own
    CpuFacts cpu;
};

}  // namespace cpprun
