// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/numa_binding.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <map>
#include <optional>
#include <set>

namespace cpprun {
namespace {

using Cpus = std::vector<int>;
using Groups = std::vector<Cpus>;

Cpus intersect(const Cpus& a, const Cpus& b) {
    Cpus both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
}

/// Facts and request in the form that the choices need.
class Machine {
  public:
    Machine(const NumaFacts& facts, const Cpus& affinity) : facts_(facts) {
        for (const CpuTopology& cpu : facts.cpus) topology_[cpu.cpu] = &cpu;
        for (const NumaNode& node : facts.nodes)
            for (const int cpu : node.cpus) node_of_[cpu] = node.id;
        usable_ = affinity.empty() ? all_cpus() : affinity;
    }

    const Cpus& usable() const { return usable_; }

    /// A machine that shows no nodes is one node, 0.
    std::optional<Cpus> cpus_of_node(int id) const {
        if (facts_.nodes.empty() && id == 0) return usable_;
        const auto node = std::find_if(facts_.nodes.begin(), facts_.nodes.end(),
                                       [id](const NumaNode& candidate) { return candidate.id == id; });
        return node == facts_.nodes.end() ? std::nullopt : std::optional(intersect(node->cpus, usable_));
    }

    int node_of_cpu(int cpu) const {
        const auto found = node_of_.find(cpu);
        return found == node_of_.end() ? 0 : found->second;
    }

    int package_of_cpu(int cpu) const {
        const auto found = topology_.find(cpu);
        return found == topology_.end() ? 0 : found->second->package;
    }

    /// The package of a node is that of its first CPU; a node without CPUs has none.
    std::optional<int> package_of_node(int id) const {
        for (const NumaNode& node : facts_.nodes)
            if (node.id == id && !node.cpus.empty()) return package_of_cpu(node.cpus.front());
        return std::nullopt;
    }

    int lowest_sibling(int cpu) const {
        const auto found = topology_.find(cpu);
        if (found == topology_.end() || found->second->thread_siblings.empty()) return cpu;
        return found->second->thread_siblings.front();
    }

    /// Where no cache is described, as in many virtual machines, the package stands for it.
    std::pair<int, int> cache_of_cpu(int cpu) const {
        const auto found = topology_.find(cpu);
        if (found == topology_.end() || found->second->largest_cache_cpus.empty()) return {1, package_of_cpu(cpu)};
        return {0, found->second->largest_cache_cpus.front()};
    }

    /// NUMA node of a device; contract 1.9: a negative one is node 0.
    int node_of_device(const std::string& pci) const {
        const auto found = facts_.node_of_pci.find(pci);
        return found == facts_.node_of_pci.end() ? 0 : std::max(0, found->second);
    }

    const std::vector<NumaNode>& nodes() const { return facts_.nodes; }

  private:
    Cpus all_cpus() const {
        std::set<int> all;
        for (const NumaNode& node : facts_.nodes) all.insert(node.cpus.begin(), node.cpus.end());
        for (const CpuTopology& cpu : facts_.cpus) all.insert(cpu.cpu);
        return {all.begin(), all.end()};
    }

    const NumaFacts& facts_;
    std::map<int, const CpuTopology*> topology_;
    std::map<int, int> node_of_;
    Cpus usable_;
};

/// CPUs with the same key together, in order of key.
template <class KeyOf>
Groups group_by(const Cpus& cpus, KeyOf key_of) {
    std::map<decltype(key_of(0)), Cpus> groups;
    for (const int cpu : cpus) groups[key_of(cpu)].push_back(cpu);
    Groups result;
    for (auto& [key, members] : groups) result.push_back(std::move(members));
    return result;
}

/// Part number `at` of `groups`, shared out evenly in order, the first parts one group longer where it does not divide.
Cpus even_share(const Groups& groups, std::size_t at, std::size_t parts) {
    const std::size_t each = groups.size() / parts;
    const std::size_t longer = groups.size() % parts;
    const std::size_t begin = at * each + std::min(at, longer);
    const std::size_t end = begin + each + (at < longer ? 1 : 0);
    Cpus cpus;
    for (std::size_t i = begin; i < end; ++i) cpus.insert(cpus.end(), groups[i].begin(), groups[i].end());
    std::sort(cpus.begin(), cpus.end());
    return cpus;
}

Groups caches_by_size(const Machine& machine, const Cpus& cpus) {
    Groups groups = group_by(cpus, [&machine](int cpu) { return machine.cache_of_cpu(cpu); });
    std::sort(groups.begin(), groups.end(), [](const Cpus& a, const Cpus& b) {
        return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
    });
    return groups;
}

/// One device's place among those of its node.
struct DevicePlace {
    int node = 0;
    std::size_t at = 0;
    std::size_t count = 0;
};

DevicePlace place_of_device(const Machine& machine, const BindingRequest& request) {
    DevicePlace place;
    const auto rank = static_cast<std::size_t>(request.local_rank);
    place.node = machine.node_of_device(request.device_pci[rank]);
    for (std::size_t i = 0; i < request.device_pci.size(); ++i) {
        if (machine.node_of_device(request.device_pci[i]) != place.node) continue;
        if (i < rank) ++place.at;
        ++place.count;
    }
    return place;
}

Result<Cpus> candidates(const Machine& machine, const DevicePlace& place) {
    const auto cpus = machine.cpus_of_node(place.node);
    if (!cpus) return failure(fmt::format("NUMA node {} is not in the system", place.node));
    if (cpus->empty())
        return failure(fmt::format("no CPU of NUMA node {} is in the affinity mask {}", place.node,
                                   format_cpulist(machine.usable())));
    return *cpus;
}

/// All usable CPUs of the nodes in the same package as `node`.
Cpus socket_of_node(const Machine& machine, int node, const Cpus& own) {
    const auto package = machine.package_of_node(node);
    if (!package) return own;
    std::set<int> cpus;
    for (const NumaNode& other : machine.nodes()) {
        if (machine.package_of_node(other.id) != package) continue;
        const Cpus usable = intersect(other.cpus, machine.usable());
        cpus.insert(usable.begin(), usable.end());
    }
    return {cpus.begin(), cpus.end()};
}

Error too_few_cores(std::size_t cores, std::size_t sharers, const std::string& where, const char* what) {
    return failure(
        fmt::format("exclusive needs a physical core for each of {} {}, and {} has {}", sharers, what, where, cores));
}

Result<Cpus> near_device(const Machine& machine, const BindingRequest& request) {
    if (static_cast<std::size_t>(request.local_rank) >= request.device_pci.size())
        return failure(fmt::format("local rank {} has no device to be near to: {} can be seen", request.local_rank,
                                   request.device_pci.size()));
    const DevicePlace place = place_of_device(machine, request);
    BOOST_OUTCOME_TRY(const Cpus cpus, candidates(machine, place));
    if (request.how == NumaBinding::socket) return socket_of_node(machine, place.node, cpus);
    if (request.how == NumaBinding::core_complex) {
        const Groups groups = caches_by_size(machine, cpus);
        return groups[place.at % groups.size()];
    }
    if (request.how == NumaBinding::exclusive) {
        const Groups cores = group_by(cpus, [&machine](int cpu) { return machine.lowest_sibling(cpu); });
        if (cores.size() < place.count)
            return too_few_cores(cores.size(), place.count, fmt::format("NUMA node {}", place.node), "devices");
        return even_share(cores, place.at, place.count);
    }
    return cpus;
}

/// Usable CPUs in the groups over which ranks are spread.
Groups spreading_groups(const Machine& machine, NumaBinding how) {
    const Cpus& cpus = machine.usable();
    if (how == NumaBinding::socket) return group_by(cpus, [&](int cpu) { return machine.package_of_cpu(cpu); });
    if (how == NumaBinding::core_complex)
        return group_by(cpus, [&](int cpu) { return std::pair(machine.node_of_cpu(cpu), machine.cache_of_cpu(cpu)); });
    if (how == NumaBinding::exclusive)
        return group_by(cpus, [&](int cpu) {
            const int core = machine.lowest_sibling(cpu);
            return std::pair(machine.node_of_cpu(core), core);
        });
    return group_by(cpus, [&](int cpu) { return machine.node_of_cpu(cpu); });
}

Result<Cpus> by_local_rank(const Machine& machine, const BindingRequest& request) {
    const Groups groups = spreading_groups(machine, request.how);
    if (groups.empty()) return failure("no CPU is known to bind to");
    const auto rank = static_cast<std::size_t>(request.local_rank);
    const auto ranks = static_cast<std::size_t>(request.local_world_size);
    if (request.how != NumaBinding::exclusive) return groups[rank * groups.size() / ranks];
    if (groups.size() < ranks)
        return too_few_cores(groups.size(), ranks, "the affinity mask " + format_cpulist(machine.usable()), "workers");
    return even_share(groups, rank, ranks);
}

bool any_address_known(const std::vector<std::string>& addresses) {
    return std::any_of(addresses.begin(), addresses.end(), [](const std::string& pci) { return !pci.empty(); });
}

std::vector<int> nodes_of(const Machine& machine, const Cpus& cpus) {
    std::set<int> nodes;
    for (const int cpu : cpus) nodes.insert(machine.node_of_cpu(cpu));
    return {nodes.begin(), nodes.end()};
}

}  // namespace

Result<CpuBinding> bind_rank(const NumaFacts& facts, const BindingRequest& request) {
    assert(request.local_rank >= 0 && request.local_rank < request.local_world_size);
    const Machine machine(facts, request.affinity);
    BOOST_OUTCOME_TRY(const Cpus cpus, any_address_known(request.device_pci) ? near_device(machine, request)
                                                                             : by_local_rank(machine, request));
    return CpuBinding{cpus, nodes_of(machine, cpus)};
}

Result<std::vector<CpuBinding>> bind_all_ranks(const NumaFacts& facts, BindingRequest request) {
    std::vector<CpuBinding> bindings;
    for (request.local_rank = 0; request.local_rank < request.local_world_size; ++request.local_rank) {
        BOOST_OUTCOME_TRY(CpuBinding binding, bind_rank(facts, request));
        bindings.push_back(std::move(binding));
    }
    return bindings;
}

}  // namespace cpprun
