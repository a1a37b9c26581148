// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/numa_binding.hpp"

#include "unit/devices/machines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace cpprun {
namespace {

using Strings = std::vector<std::string>;

/// CPU lists of all ranks.
Strings lists(const NumaFacts& facts, const BindingRequest& request) {
    Strings texts;
    const auto bindings = bind_all_ranks(facts, request);
    if (!bindings) return {bindings.error().message};
    for (const CpuBinding& binding : bindings.value()) texts.push_back(format_cpulist(binding.cpus));
    return texts;
}

/// Four devices on nodes 0, 0, 2 and (unknown to the kernel) -1.
NumaFacts with_devices() {
    NumaFacts facts = machines::two_sockets();
    facts.node_of_pci = {{"0000:10:00.0", 0}, {"0000:11:00.0", 0}, {"0000:12:00.0", 2}, {"0000:13:00.0", -1}};
    return facts;
}

BindingRequest near_devices(NumaBinding how) {
    return {.how = how,
            .local_world_size = 4,
            .device_pci = {"0000:10:00.0", "0000:11:00.0", "0000:12:00.0", "0000:13:00.0"},
            .affinity = machines::cpu_range(0, 31)};
}

BindingRequest spread(NumaBinding how, int ranks) {
    return {.how = how, .local_world_size = ranks, .affinity = machines::cpu_range(0, 31)};
}

TEST(NumaBinding, B29NodeIsTheDevicesNodeAndANegativeOneIsNode0) {
    EXPECT_EQ(lists(with_devices(), near_devices(NumaBinding::node)),
              (Strings{"0-3,16-19", "0-3,16-19", "8-11,24-27", "0-3,16-19"}));
}

TEST(NumaBinding, B29SocketIsAllNodesOfTheDevicesPackage) {
    EXPECT_EQ(lists(with_devices(), near_devices(NumaBinding::socket)),
              (Strings{"0-7,16-23", "0-7,16-23", "8-15,24-31", "0-7,16-23"}));
}

TEST(NumaBinding, B29ExclusiveSharesTheNodesCoresAmongItsDevices) {
    // Three devices on the four cores of node 0: two cores for the first.
    EXPECT_EQ(lists(with_devices(), near_devices(NumaBinding::exclusive)),
              (Strings{"0-1,16-17", "2,18", "8-11,24-27", "3,19"}));
}

TEST(NumaBinding, B29CoreComplexTakesTheBiggestGroupsFirstModulo) {
    EXPECT_EQ(lists(with_devices(), near_devices(NumaBinding::core_complex)),
              (Strings{"0-1,16-17", "2-3,18-19", "8-9,24-25", "0-1,16-17"}));
    BindingRequest masked = near_devices(NumaBinding::core_complex);
    masked.affinity = {1, 2, 3, 8, 16};
    EXPECT_EQ(lists(with_devices(), masked), (Strings{"1,16", "2-3", "8", "1,16"}));
    masked.affinity = {1, 2, 3, 8};
    EXPECT_EQ(lists(with_devices(), masked), (Strings{"2-3", "1", "8", "2-3"}));
}

TEST(NumaBinding, B29OnlyCpusOfTheInheritedMaskAreUsed) {
    BindingRequest request = near_devices(NumaBinding::node);
    request.affinity = {0, 1, 9, 31};
    EXPECT_EQ(lists(with_devices(), request), (Strings{"0-1", "0-1", "9", "0-1"}));
    request.affinity = {0, 1};
    EXPECT_EQ(lists(with_devices(), request), Strings{"no CPU of NUMA node 2 is in the affinity mask 0-1"});
}

TEST(NumaBinding, ADeviceOnANodeThatIsNotThereIsAnError) {
    NumaFacts facts = with_devices();
    facts.node_of_pci["0000:10:00.0"] = 7;
    EXPECT_EQ(lists(facts, near_devices(NumaBinding::node)), Strings{"NUMA node 7 is not in the system"});
}

TEST(NumaBinding, MoreWorkersThanDevicesIsAnError) {
    BindingRequest request = near_devices(NumaBinding::node);
    request.device_pci.resize(2);
    EXPECT_EQ(lists(with_devices(), request), Strings{"local rank 2 has no device to be near to: 2 can be seen"});
}

TEST(NumaBinding, FewerCoresThanDevicesIsAnErrorForExclusive) {
    BindingRequest request = near_devices(NumaBinding::exclusive);
    request.affinity = {0, 1, 8, 16, 17};
    EXPECT_EQ(lists(with_devices(), request),
              Strings{"exclusive needs a physical core for each of 3 devices, and NUMA node 0 has 2"});
}

TEST(NumaBinding, B29WithoutDevicesRanksAreSpreadOverNodesAndSockets) {
    const NumaFacts facts = machines::two_sockets();
    EXPECT_EQ(lists(facts, spread(NumaBinding::node, 4)),
              (Strings{"0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"}));
    EXPECT_EQ(lists(facts, spread(NumaBinding::node, 2)), (Strings{"0-3,16-19", "8-11,24-27"}));
    EXPECT_EQ(lists(facts, spread(NumaBinding::socket, 4)),
              (Strings{"0-7,16-23", "0-7,16-23", "8-15,24-31", "8-15,24-31"}));
    EXPECT_EQ(lists(facts, spread(NumaBinding::core_complex, 2)), (Strings{"0-1,16-17", "8-9,24-25"}));
}

TEST(NumaBinding, B29ExclusiveWithoutDevicesGivesDisjointEvenShares) {
    EXPECT_EQ(lists(machines::two_sockets(), spread(NumaBinding::exclusive, 2)), (Strings{"0-7,16-23", "8-15,24-31"}));
    for (int ranks = 1; ranks <= 16; ++ranks) {
        const auto bindings = bind_all_ranks(machines::two_sockets(), spread(NumaBinding::exclusive, ranks)).value();
        std::set<int> seen;
        std::size_t smallest = 32, biggest = 0;
        for (const CpuBinding& binding : bindings) {
            smallest = std::min(smallest, binding.cpus.size());
            biggest = std::max(biggest, binding.cpus.size());
            for (const int cpu : binding.cpus) EXPECT_TRUE(seen.insert(cpu).second) << cpu;
        }
        EXPECT_EQ(seen.size(), 32U) << ranks;
        EXPECT_LE(biggest - smallest, 2U) << ranks;
    }
    EXPECT_EQ(lists(machines::two_sockets(), spread(NumaBinding::exclusive, 17)),
              Strings{"exclusive needs a physical core for each of 17 workers, and the affinity mask 0-31 has 16"});
}

TEST(NumaBinding, TwoThreadsOfOneCoreAreNotTwoCores) {
    BindingRequest request = spread(NumaBinding::exclusive, 2);
    request.affinity = {0, 16};
    EXPECT_FALSE(bind_all_ranks(machines::two_sockets(), request));
}

TEST(NumaBinding, AMachineThatTellsNothingIsOneNodeOfSingleCores) {
    for (const NumaBinding how : {NumaBinding::node, NumaBinding::socket, NumaBinding::core_complex}) {
        BindingRequest request = spread(how, 2);
        request.affinity = {0, 1, 2, 3};
        EXPECT_EQ(lists({}, request), (Strings{"0-3", "0-3"}));
    }
    BindingRequest request = spread(NumaBinding::exclusive, 2);
    request.affinity = {0, 1, 2, 3};
    EXPECT_EQ(lists({}, request), (Strings{"0-1", "2-3"}));
    request.affinity.clear();
    EXPECT_FALSE(bind_all_ranks({}, request));
}

TEST(NumaBinding, DevicesWithoutAnyKnownAddressAreAsNoDevices) {
    BindingRequest request = spread(NumaBinding::node, 2);
    request.device_pci = {"", ""};
    EXPECT_EQ(lists(machines::two_sockets(), request), (Strings{"0-3,16-19", "8-11,24-27"}));
}

TEST(NumaBinding, TheMemoryNodesAreThoseOfTheCpus) {
    EXPECT_EQ(bind_all_ranks(machines::two_sockets(), spread(NumaBinding::socket, 2)).value()[1].memory_nodes,
              (std::vector<int>{2, 3}));
}

}  // namespace
}  // namespace cpprun
