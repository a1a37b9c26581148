// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/visible_devices.hpp"

#include "unit/devices/machines.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

VisibleDevices cuda(const DeviceFacts& facts, const char* list) {
    return visible_devices(facts, {{"CUDA_VISIBLE_DEVICES", list}}, DeviceKind::cuda);
}

std::vector<int> indices(const std::vector<Device>& devices) {
    std::vector<int> list;
    for (const Device& device : devices) list.push_back(device.index);
    return list;
}

using Indices = std::vector<int>;

TEST(VisibleDevices, AllAreVisibleWithoutAList) {
    const auto visible = visible_devices(machines::devices(4), {}, DeviceKind::cuda);
    EXPECT_EQ(indices(visible.devices), (Indices{0, 1, 2, 3}));
    EXPECT_EQ(visible.limited_by, "");
    EXPECT_FALSE(visible.none_wanted);
}

struct ListCase {
    const char* list;
    Indices visible;
};

TEST(VisibleDevices, B26AnInvalidIndexCutsTheList) {
    for (const ListCase& row : std::initializer_list<ListCase>{{"0,1", {0, 1}},
                                                               {"2,1", {2, 1}},
                                                               {"0,9,1", {0}},
                                                               {"0,2,-1,1", {0, 2}},
                                                               {" 3 , 1 ", {3, 1}},
                                                               {"1gpu,+2", {1, 2}},
                                                               {"0,x,1", {0}},
                                                               {"0,,1", {0}},
                                                               {"9", {}},
                                                               {"99999999999999", {}},
                                                               {"0,1,0,2", {0, 1}},
                                                               {"0,GPU-b1", {0}},
                                                               {"0,MIG-b1", {0}}})
        EXPECT_EQ(indices(cuda(machines::devices(4), row.list).devices), row.visible) << row.list;
}

TEST(VisibleDevices, B26ANumberOfDevicesAgainstEachUsualList) {
    struct Row {
        const char* list;
        std::size_t of_none, of_four;
    };
    for (const Row& row : {Row{"", 0, 0}, Row{"-1", 0, 0}, Row{"0,1", 0, 2}, Row{"0,9,1", 0, 1}}) {
        EXPECT_EQ(cuda(machines::devices(0), row.list).devices.size(), row.of_none) << row.list;
        EXPECT_EQ(cuda(machines::devices(4), row.list).devices.size(), row.of_four) << row.list;
    }
}

TEST(VisibleDevices, NoneIsWantedByAnEmptyListMinusOneAndSlurmsWord) {
    for (const char* list : {"", " ", "-1", "-1,0", "NoDevFiles"}) {
        EXPECT_TRUE(cuda(machines::devices(4), list).none_wanted) << list;
        EXPECT_TRUE(cuda(machines::devices(4), list).devices.empty()) << list;
    }
    EXPECT_FALSE(cuda(machines::devices(4), "9").none_wanted);
}

TEST(VisibleDevices, B27UuidsMayBeCutShortWhileTheyNameOneDevice) {
    for (const ListCase& row : std::initializer_list<ListCase>{{"GPU-b100-1234,GPU-a", {1, 0}},
                                                               {"GPU-d3", {3}},
                                                               {"GPU-", {}},
                                                               {"GPU-a0,GPU-z,GPU-b1", {0}},
                                                               {"GPU-a0,GPU-a000", {0}},
                                                               {"GPU-a0,1", {0}},
                                                               {"gpu-a0", {}}})
        EXPECT_EQ(indices(cuda(machines::devices(4), row.list).devices), row.visible) << row.list;
}

TEST(VisibleDevices, B27UuidsThatCannotBeCheckedAreBelievedUpToTheNumberOfDevices) {
    DeviceFacts facts = machines::devices(2);
    for (Device& device : facts.devices) device.uuid.clear();
    EXPECT_EQ(cuda(facts, "GPU-1,GPU-2,GPU-3").devices.size(), 2U);
    EXPECT_EQ(cuda(facts, "GPU-1,GPU-1").devices.size(), 1U);
    EXPECT_EQ(cuda(facts, "GPU-1").devices.front().uuid, "GPU-1");
}

TEST(VisibleDevices, B27OneProcessSeesOneMigSlice) {
    const auto visible = cuda(machines::devices(2), "MIG-a,MIG-b,MIG-c");
    ASSERT_EQ(visible.devices.size(), 1U);
    EXPECT_EQ(visible.devices.front().uuid, "MIG-a");
    EXPECT_EQ(visible.listed.size(), 3U);
    EXPECT_EQ(cuda(machines::devices(0), "MIG-a").devices.size(), 0U);
}

TEST(VisibleDevices, B27AMigNameIsCheckedWhereTheNamesAreKnown) {
    DeviceFacts facts = machines::devices(2);
    facts.devices[1].mig_uuids = {"MIG-1111", "MIG-2222"};
    EXPECT_EQ(cuda(facts, "MIG-2222").devices.front().pci_address, "0000:11:00.0");
    EXPECT_EQ(cuda(facts, "MIG-22").devices.size(), 1U);
    EXPECT_EQ(cuda(facts, "MIG-3333").devices.size(), 0U);
    EXPECT_EQ(cuda(facts, "MIG-1111,MIG-3333,MIG-2222").listed.size(), 1U);
    EXPECT_EQ(cuda(facts, "MIG-1111,0").listed.size(), 1U);
}

TEST(VisibleDevices, B27TheOldMigNameCarriesItsGpu) {
    const DeviceFacts facts = machines::devices(2);
    EXPECT_EQ(cuda(facts, "MIG-GPU-b100-1234/1/0").devices.front().index, 1);
    EXPECT_EQ(cuda(facts, "MIG-GPU-zzzz/1/0").devices.size(), 0U);
}

TEST(VisibleDevices, B27WhereAGpuIsSlicedAProcessSeesOnlyItsFirstSlice) {
    DeviceFacts facts = machines::devices(2);
    facts.devices[0].mig_uuids = {"MIG-1111", "MIG-2222"};
    const auto visible = visible_devices(facts, {}, DeviceKind::cuda);
    ASSERT_EQ(visible.devices.size(), 1U);
    EXPECT_EQ(visible.devices.front().uuid, "MIG-1111");
    EXPECT_EQ(indices(cuda(facts, "1").devices), Indices{1});
}

TEST(VisibleDevices, HipAndRocrListsApplyOneAfterTheOther) {
    const DeviceFacts facts = machines::devices(4, DeviceKind::rocm);
    const auto rocm = [&facts](const Environment& environment) {
        return indices(visible_devices(facts, environment, DeviceKind::rocm).devices);
    };
    EXPECT_EQ(rocm({}), (Indices{0, 1, 2, 3}));
    EXPECT_EQ(rocm({{"HIP_VISIBLE_DEVICES", "1,2"}}), (Indices{1, 2}));
    EXPECT_EQ(rocm({{"CUDA_VISIBLE_DEVICES", "3"}}), (Indices{3}));
    EXPECT_EQ(rocm({{"CUDA_VISIBLE_DEVICES", "3"}, {"HIP_VISIBLE_DEVICES", "1,2"}}), (Indices{1, 2}));
    EXPECT_EQ(rocm({{"ROCR_VISIBLE_DEVICES", "2,3"}, {"HIP_VISIBLE_DEVICES", "1"}}), (Indices{3}));
    EXPECT_EQ(rocm({{"ROCR_VISIBLE_DEVICES", "GPU-c2"}}), (Indices{2}));
    EXPECT_EQ(rocm({{"ROCR_VISIBLE_DEVICES", "2,3"}, {"HIP_VISIBLE_DEVICES", "2"}}), Indices{});
    EXPECT_EQ(rocm({{"HIP_VISIBLE_DEVICES", "-1"}}), Indices{});
}

TEST(VisibleDevices, BothListsAreNamedWhenBothDecide) {
    const auto visible =
        visible_devices(machines::devices(4, DeviceKind::rocm),
                        {{"ROCR_VISIBLE_DEVICES", "2,3"}, {"HIP_VISIBLE_DEVICES", "1"}}, DeviceKind::rocm);
    EXPECT_EQ(visible.limited_by, "ROCR_VISIBLE_DEVICES=2,3 HIP_VISIBLE_DEVICES=1");
}

TEST(VisibleDevices, TheXpuMaskSkipsWhatItDoesNotKnow) {
    const DeviceFacts facts = machines::devices(3, DeviceKind::xpu);
    const auto xpu = [&facts](const char* mask) {
        return indices(visible_devices(facts, {{"ZE_AFFINITY_MASK", mask}}, DeviceKind::xpu).devices);
    };
    EXPECT_EQ(xpu(""), (Indices{0, 1, 2}));
    EXPECT_EQ(xpu("2,0"), (Indices{0, 2}));
    EXPECT_EQ(xpu("1.0,1.1"), (Indices{1}));
    EXPECT_EQ(xpu("9,1"), (Indices{1}));
    EXPECT_EQ(xpu("x,1"), (Indices{1}));
    EXPECT_EQ(xpu("9"), Indices{});
}

TEST(VisibleDevices, ListsOfOtherMakersDoNotCount) {
    const DeviceFacts facts = machines::devices(2);
    EXPECT_EQ(visible_devices(facts, {{"HIP_VISIBLE_DEVICES", "0"}, {"NVIDIA_VISIBLE_DEVICES", "0"}}, DeviceKind::cuda)
                  .devices.size(),
              2U);
}

TEST(VisibleDevices, AddressesFollowTheListAndMigSlicesTheirGpu) {
    DeviceFacts facts = machines::devices(3);
    using Addresses = std::vector<std::string>;
    EXPECT_EQ(device_addresses_by_rank(facts, {{"CUDA_VISIBLE_DEVICES", "2,0"}}),
              (Addresses{"0000:12:00.0", "0000:10:00.0"}));
    facts.devices[1].mig_uuids = {"MIG-1111", "MIG-2222"};
    EXPECT_EQ(device_addresses_by_rank(facts, {{"CUDA_VISIBLE_DEVICES", "MIG-1111,MIG-2222"}}),
              (Addresses{"0000:11:00.0", "0000:11:00.0"}));
    EXPECT_EQ(device_addresses_by_rank({}, {{"CUDA_VISIBLE_DEVICES", "0"}}), Addresses{});
}

}  // namespace
}  // namespace cpprun
