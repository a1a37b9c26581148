// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/devices/probe_numa.hpp"

#include "core/devices/numa_binding.hpp"
#include "integration/devices/fake_tree.hpp"
#include "runtime/devices/probe_cpus.hpp"

#include <gtest/gtest.h>

#include <set>

namespace cpprun {
namespace {

/// Two nodes of four CPUs in two packages; CPUs 2k and 2k+1 are one core; each node is one cache. Devices on nodes 0, 1
/// and -1.
void two_nodes(FakeTree& tree) {
    for (int cpu = 0; cpu < 8; ++cpu) {
        const std::string base = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
        const std::string core = std::to_string(cpu / 2 * 2) + "-" + std::to_string(cpu / 2 * 2 + 1);
        tree.write(base + "/topology/physical_package_id", std::to_string(cpu / 4) + "\n");
        tree.write(base + "/topology/thread_siblings_list", core + "\n");
        const auto cache = [&](int index, const char* level, const char* type, const std::string& shared) {
            const std::string directory = base + "/cache/index" + std::to_string(index);
            tree.write(directory + "/level", std::string(level) + "\n");
            tree.write(directory + "/type", std::string(type) + "\n");
            tree.write(directory + "/shared_cpu_list", shared + "\n");
        };
        cache(0, "1", "Data", core);
        cache(1, "4", "Instruction", std::to_string(cpu));
        cache(2, "3", "Unified", cpu < 4 ? "0-3" : "4-7");
        cache(3, "2", "Unified", core);
    }
    tree.write("/sys/devices/system/node/node0/cpulist", "0-3\n");
    tree.write("/sys/devices/system/node/node1/cpulist", "4-7\n");
    tree.write("/sys/devices/system/node/online", "0-1\n");
    tree.write("/sys/bus/pci/devices/0000:10:00.0/numa_node", "0\n");
    tree.write("/sys/bus/pci/devices/0000:11:00.0/numa_node", "1\n");
    tree.write("/sys/bus/pci/devices/0000:12:00.0/numa_node", "-1\n");
}

const std::vector<std::string> addresses = {"0000:10:00.0", "0000:11:00.1", "0000:12:00.0"};

TEST(ProbeNuma, B29NodesCoresCachesAndDevicesAreRead) {
    FakeTree tree;
    two_nodes(tree);
    const NumaFacts facts = probe_numa(addresses, tree.roots());
    ASSERT_EQ(facts.nodes.size(), 2U);
    EXPECT_EQ(facts.nodes[1].id, 1);
    EXPECT_EQ(facts.nodes[1].cpus, (std::vector<int>{4, 5, 6, 7}));
    ASSERT_EQ(facts.cpus.size(), 8U);
    EXPECT_EQ(facts.cpus[5].package, 1);
    EXPECT_EQ(facts.cpus[5].thread_siblings, (std::vector<int>{4, 5}));
    EXPECT_EQ(facts.cpus[5].largest_cache_cpus, (std::vector<int>{4, 5, 6, 7}));
    EXPECT_EQ(facts.node_of_pci,
              (std::map<std::string, int>{{"0000:10:00.0", 0}, {"0000:11:00.1", 1}, {"0000:12:00.0", -1}}));
}

TEST(ProbeNuma, B29BindingsFollowFromTheTree) {
    FakeTree tree;
    two_nodes(tree);
    BindingRequest request{
        .how = NumaBinding::node, .local_world_size = 3, .device_pci = addresses, .affinity = {0, 1, 2, 3, 4, 5, 6, 7}};
    const NumaFacts facts = probe_numa(addresses, tree.roots());
    auto bindings = bind_all_ranks(facts, request).value();
    EXPECT_EQ(format_cpulist(bindings[0].cpus), "0-3");
    EXPECT_EQ(format_cpulist(bindings[1].cpus), "4-7");
    EXPECT_EQ(format_cpulist(bindings[2].cpus), "0-3");
    request.how = NumaBinding::exclusive;
    bindings = bind_all_ranks(facts, request).value();
    EXPECT_EQ(format_cpulist(bindings[0].cpus), "0-1");
    EXPECT_EQ(format_cpulist(bindings[1].cpus), "4-7");
    EXPECT_EQ(format_cpulist(bindings[2].cpus), "2-3");
}

TEST(ProbeNuma, B29OnThisMachineExclusiveGivesDisjointPartsOfTheMask) {
    const auto mask = probe_cpus().affinity;
    BindingRequest request{.how = NumaBinding::exclusive, .local_world_size = 2, .affinity = mask};
    const auto bindings = bind_all_ranks(probe_numa({}), request);
    if (!bindings) {
        EXPECT_NE(bindings.error().message.find("exclusive needs a physical core"), std::string::npos);
        return;
    }
    std::set<int> seen;
    for (const CpuBinding& binding : bindings.value())
        for (const int cpu : binding.cpus) EXPECT_TRUE(seen.insert(cpu).second);
    EXPECT_EQ(seen, std::set<int>(mask.begin(), mask.end()));
}

TEST(ProbeNuma, AHostileTreeIsLeftOut) {
    FakeTree tree;
    tree.write("/sys/devices/system/node/node0/cpulist", "0-65535\n");
    tree.fifo("/sys/devices/system/node/node1/cpulist");
    tree.write("/sys/devices/system/node/node2/cpulist", std::string(100000, ','));
    tree.link("/sys/devices/system/cpu/cpu0", "cpu0");
    tree.write("/sys/devices/system/cpu/cpu1/topology/physical_package_id", "99999999999999999999\n");
    const NumaFacts facts = probe_numa({"../../../etc", "0000:10:00.0"}, tree.roots());
    EXPECT_EQ(facts.nodes.size(), 3U);
    EXPECT_LE(facts.cpus.size(), 8192U);
    EXPECT_TRUE(facts.node_of_pci.empty());
}

}  // namespace
}  // namespace cpprun
