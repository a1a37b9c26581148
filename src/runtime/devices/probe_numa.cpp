// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/devices/probe_numa.hpp"

#include "core/devices/cpu_list.hpp"
#include "runtime/devices/system_files.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace cpprun {
namespace {

std::vector<int> read_cpulist(const std::string& path) {
    const auto text = read_small_file(path);
    if (!text) return {};
    auto cpus = parse_cpulist(*text);
    return cpus ? std::move(cpus).value() : std::vector<int>{};
}

std::vector<NumaNode> read_nodes(const std::string& directory) {
    std::vector<NumaNode> nodes;
    for (const std::string& name : list_directory(directory)) {
        const auto id = number_after(name, "node");
        if (!id) continue;
        nodes.push_back({*id, read_cpulist(entry_of(directory, name) + "/cpulist")});
    }
    return nodes;
}

/// CPUs that share the cache of the highest level that holds data.
std::vector<int> read_largest_cache(const std::string& cpu_directory) {
    long long highest = 0;
    std::string best;
    const std::string caches = cpu_directory + "/cache";
    for (const std::string& name : list_directory(caches)) {
        if (!number_after(name, "index")) continue;
        const std::string cache = entry_of(caches, name);
        const std::string type = read_small_file(cache + "/type").value_or("");
        if (type.rfind("Data", 0) != 0 && type.rfind("Unified", 0) != 0) continue;
        const long long level = read_number(cache + "/level").value_or(0);
        if (level <= highest) continue;
        highest = level;
        best = cache;
    }
    return best.empty() ? std::vector<int>{} : read_cpulist(best + "/shared_cpu_list");
}

/// The CPUs that sit in `nodes`, or all that /sys lists where it knows no nodes.
std::vector<int> cpus_to_describe(const std::vector<NumaNode>& nodes, const std::string& directory) {
    std::set<int> cpus;
    for (const NumaNode& node : nodes) cpus.insert(node.cpus.begin(), node.cpus.end());
    if (cpus.empty())
        for (const std::string& name : list_directory(directory))
            if (const auto cpu = number_after(name, "cpu")) cpus.insert(*cpu);
    std::vector<int> list(cpus.begin(), cpus.end());
    // A hostile cpulist may name 65536 CPUs; no kernel has that many.
    list.resize(std::min<std::size_t>(list.size(), probe_directory_entries_max));
    return list;
}

std::vector<CpuTopology> read_cpus(const std::vector<int>& cpus, const std::string& directory) {
    std::vector<CpuTopology> topology;
    std::map<int, std::vector<int>> cache_of;  // read once for all that share it: these are most of the files
    for (const int cpu : cpus) {
        const std::string base = directory + "/cpu" + std::to_string(cpu);
        CpuTopology entry{cpu};
        // -1 where the platform does not say.
        entry.package =
            static_cast<int>(std::max(0LL, read_number(base + "/topology/physical_package_id").value_or(0)));
        entry.thread_siblings = read_cpulist(base + "/topology/thread_siblings_list");
        if (cache_of.count(cpu) == 0) {
            cache_of[cpu] = read_largest_cache(base);
            const auto sharers = cache_of[cpu];
            for (const int sharer : sharers) cache_of[sharer] = sharers;
        }
        entry.largest_cache_cpus = cache_of[cpu];
        topology.push_back(std::move(entry));
    }
    return topology;
}

/// Contract 1.9 asks function 0 of the device.
std::string function_zero(std::string pci) {
    const std::size_t dot = pci.find_last_of('.');
    if (dot != std::string::npos) pci.replace(dot, std::string::npos, ".0");
    return pci;
}

bool looks_like_pci(const std::string& address) {
    return !address.empty() && address.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
}

}  // namespace

NumaFacts probe_numa(const std::vector<std::string>& pci_addresses, const ProbeRoots& roots) {
    NumaFacts facts;
    facts.nodes = read_nodes(roots.sys + "/devices/system/node");
    const std::string cpu_directory = roots.sys + "/devices/system/cpu";
    facts.cpus = read_cpus(cpus_to_describe(facts.nodes, cpu_directory), cpu_directory);
    for (const std::string& address : pci_addresses) {
        if (!looks_like_pci(address)) continue;
        const auto node = read_number(roots.sys + "/bus/pci/devices/" + function_zero(address) + "/numa_node");
        if (node && *node <= 65535) facts.node_of_pci[address] = static_cast<int>(std::max(-1LL, *node));
    }
    return facts;
}

}  // namespace cpprun
