// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/devices/probe_devices.hpp"

#include "core/devices/visible_devices.hpp"
#include "core/devices/worker_count.hpp"
#include "integration/devices/fake_tree.hpp"
#include "runtime/devices/ask_nvml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

namespace cpprun {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// One line for each device: kind, index, UUID, address, number of slices.
std::vector<std::string> listed(const DeviceFacts& facts) {
    std::vector<std::string> lines;
    for (const Device& device : facts.devices)
        lines.push_back(std::string(maker_name(device.kind)) + " " + std::to_string(device.index) + " " + device.uuid +
                        " " + device.pci_address + " " + std::to_string(device.mig_uuids.size()));
    return lines;
}

using Lines = std::vector<std::string>;

Lines from_files(const FakeTree& tree) {
    return listed(probe_devices(ProbeDepth::files, tree.roots()));
}

class FakeNvml {
  public:
    explicit FakeNvml(FakeTree& tree, const char* mode = "") {
        tree.directory("/lib").link("/lib/libnvidia-ml.so.1", CPPRUN_FAKE_NVML_LIBRARY);
        ::setenv("CPPRUN_FAKE_NVML", mode, 1);
    }
    ~FakeNvml() { ::unsetenv("CPPRUN_FAKE_NVML"); }
    FakeNvml(const FakeNvml&) = delete;
    FakeNvml& operator=(const FakeNvml&) = delete;
};

TEST(ProbeDevices, AnEmptyMachineHasNoneAndSaysWhereItLooked) {
    const FakeTree tree;
    const DeviceFacts facts = probe_devices(ProbeDepth::drivers, tree.roots());
    EXPECT_TRUE(facts.devices.empty());
    for (const char* place : {"/proc/driver/nvidia/gpus: not there", "/dev/nvidia[0-9]*: not there", "NVML: not asked",
                              "/sys/class/kfd/kfd/topology/nodes: not there", "/sys/class/drm: not there"})
        EXPECT_THAT(facts.looked_at, Contains(HasSubstr(place)));
}

TEST(ProbeDevices, B26NvidiaGpusAreReadFromProcAndDev) {
    FakeTree tree;
    tree.nvidia_gpu(0, "0000:3b:00.0", "GPU-aa").nvidia_gpu(1, "0000:af:00.0", "GPU-bb");
    EXPECT_EQ(from_files(tree), (Lines{"NVIDIA 0 GPU-aa 0000:3b:00.0 0", "NVIDIA 1 GPU-bb 0000:af:00.0 0"}));
}

TEST(ProbeDevices, AGpuWithoutItsNodeBelongsToAnotherContainer) {
    FakeTree tree;
    tree.nvidia_gpu(0, "0000:3b:00.0", "GPU-aa").nvidia_gpu(1, "0000:af:00.0", "GPU-bb");
    std::filesystem::remove(tree.root() + "/dev/nvidia0");
    EXPECT_EQ(from_files(tree), (Lines{"NVIDIA 0 GPU-bb 0000:af:00.0 0"}));
}

TEST(ProbeDevices, NodesAloneAreCountedWhereProcShowsNothing) {
    FakeTree tree;
    tree.write("/dev/nvidiactl").write("/dev/nvidia2").write("/dev/nvidia10").write("/dev/nvidia-uvm");
    EXPECT_EQ(from_files(tree), (Lines{"NVIDIA 0   0", "NVIDIA 1   0"}));
}

TEST(ProbeDevices, AUuidThatTheDriverDoesNotKnowYetIsLeftOut) {
    FakeTree tree;
    tree.nvidia_gpu(0, "0000:3b:00.0", std::string("GPU-") + std::string(8, '?'));
    EXPECT_EQ(from_files(tree), (Lines{"NVIDIA 0  0000:3b:00.0 0"}));
}

TEST(ProbeDevices, B27SlicesAreSeenInTheDriversAccessFiles) {
    FakeTree tree;
    tree.nvidia_gpu(0, "0000:3b:00.0", "GPU-aa");
    for (const char* slice : {"gi1/ci0", "gi2/ci0"})
        tree.write(std::string("/proc/driver/nvidia/capabilities/gpu0/mig/") + slice + "/access", "x\n");
    const DeviceFacts facts = probe_devices(ProbeDepth::files, tree.roots());
    ASSERT_EQ(facts.devices.size(), 1U);
    EXPECT_EQ(facts.devices.front().mig_uuids, (Lines{"MIG-GPU-aa/1/0", "MIG-GPU-aa/2/0"}));
}

TEST(ProbeDevices, AJetsonsGpuCountsAsOne) {
    FakeTree tree;
    tree.write("/dev/nvhost-gpu");
    EXPECT_EQ(from_files(tree), (Lines{"NVIDIA 0   0"}));
}

TEST(ProbeDevices, B27NvmlTellsUuidsAndSlices) {
    FakeTree tree;
    tree.nvidia_gpu(0, "0000:3b:00.0", "GPU-aa");
    const FakeNvml nvml(tree);
    const DeviceFacts facts = probe_devices(ProbeDepth::drivers, tree.roots());
    EXPECT_EQ(listed(facts), (Lines{"NVIDIA 0 GPU-nvml-0 0000:3b:00.0 0", "NVIDIA 1 GPU-nvml-1 0000:3c:00.0 2"}));
    EXPECT_EQ(facts.devices[1].mig_uuids, (Lines{"MIG-nvml-2", "MIG-nvml-3"}));
    EXPECT_THAT(facts.looked_at, Contains("NVML: 2 devices"));
}

TEST(ProbeDevices, B27CountsOfDeviceListsAgainstNvmlsNames) {
    FakeTree tree;
    tree.nvidia_gpu(0, "0000:3b:00.0", "GPU-aa");
    const FakeNvml nvml(tree);
    const DeviceFacts facts = probe_devices(ProbeDepth::drivers, tree.roots());
    struct Row {
        const char* list;
        int shared, one_each;  // 0: refused
    };
    for (const Row& row :
         {Row{"GPU-nvml-0", 1, 1}, Row{"GPU-nvml-1,GPU-nvml-0", 1, 2}, Row{"MIG-nvml-2,MIG-nvml-3", 1, 2},
          Row{"MIG-nvml-3", 1, 1}, Row{"MIG-other", 0, 0}, Row{"GPU-other,GPU-nvml-0", 0, 0}, Row{"0", 1, 1}}) {
        for (const bool one_each : {false, true}) {
            const auto result =
                count_workers("gpu", {}, facts, {{"CUDA_VISIBLE_DEVICES", row.list}}, CpuCountRule::quota, one_each);
            EXPECT_EQ(result ? result.value().count : 0, one_each ? row.one_each : row.shared) << row.list;
        }
    }
}

TEST(ProbeDevices, NvmlIsNotLoadedForAPlainNumberOrWithoutADriver) {
    FakeTree tree;
    const FakeNvml nvml(tree);
    EXPECT_TRUE(probe_devices(ProbeDepth::drivers, tree.roots()).devices.empty());
    tree.nvidia_gpu(0, "0000:3b:00.0", "GPU-aa");
    EXPECT_EQ(from_files(tree), (Lines{"NVIDIA 0 GPU-aa 0000:3b:00.0 0"}));
}

TEST(ProbeDevices, ABrokenNvmlLeavesWhatTheFilesSay) {
    for (const char* mode : {"crash", "fail"}) {
        FakeTree tree;
        tree.nvidia_gpu(0, "0000:3b:00.0", "GPU-aa");
        const FakeNvml nvml(tree, mode);
        EXPECT_EQ(listed(probe_devices(ProbeDepth::drivers, tree.roots())), (Lines{"NVIDIA 0 GPU-aa 0000:3b:00.0 0"}));
    }
    FakeTree tree;
    tree.nvidia_gpu(0, "0000:3b:00.0", "GPU-aa").write("/lib/libnvidia-ml.so.1", "not a library");
    const DeviceFacts facts = probe_devices(ProbeDepth::drivers, tree.roots());
    EXPECT_EQ(facts.devices.size(), 1U);
    EXPECT_THAT(facts.looked_at, Contains("NVML: it cannot be loaded"));
}

TEST(ProbeDevices, ANvmlThatHangsIsGivenUp) {
    FakeTree tree;
    const FakeNvml nvml(tree, "hang");
    const auto begin = std::chrono::steady_clock::now();
    const NvmlAnswer answer = ask_nvml(tree.roots().nvml_libraries, std::chrono::milliseconds(200));
    EXPECT_FALSE(answer.devices);
    EXPECT_EQ(answer.outcome, "no answer");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

FakeTree& amd_gpu(FakeTree& tree, int node, int render, const std::string& unique_id) {
    const std::string base = "/sys/class/kfd/kfd/topology/nodes/" + std::to_string(node);
    tree.write(base + "/gpu_id", std::to_string(1000 + node) + "\n");
    tree.write(base + "/properties",
               "cpu_cores_count 0\nsimd_count 440\nvendor_id 4098\nlocation_id 49920\ndomain 0\n" +
                   ("drm_render_minor " + std::to_string(render)) + "\nunique_id " + unique_id + "\n");
    return tree;
}

TEST(ProbeDevices, B26AmdGpusAreTheKfdNodesWithAGpuId) {
    FakeTree tree;
    tree.write("/dev/kfd").write("/dev/dri/renderD128").write("/dev/dri/renderD129");
    tree.write("/sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
    amd_gpu(amd_gpu(tree, 1, 128, "18446744073709551615"), 2, 129, "0");
    EXPECT_EQ(from_files(tree), (Lines{"AMD 0 GPU-ffffffffffffffff 0000:c3:00.0 0", "AMD 1  0000:c3:00.0 0"}));
}

TEST(ProbeDevices, AnAmdGpuNeedsItsNodes) {
    FakeTree tree;
    tree.write("/dev/dri/renderD128");
    amd_gpu(amd_gpu(tree, 1, 128, "7"), 2, 129, "8");
    EXPECT_EQ(from_files(tree), Lines{});
    tree.write("/dev/kfd");
    EXPECT_EQ(from_files(tree).size(), 1U);
}

FakeTree& drm_card(FakeTree& tree, int card, const std::string& vendor, const std::string& driver,
                   const std::string& pci) {
    const std::string base = "/sys/class/drm/card" + std::to_string(card);
    const std::string render = "renderD" + std::to_string(128 + card);
    tree.write(base + "/device/vendor", vendor + "\n");
    tree.write(base + "/device/uevent", "DRIVER=" + driver + "\nPCI_CLASS=38000\nPCI_SLOT_NAME=" + pci + "\n");
    tree.directory(base + "/device/drm/" + render);
    return tree.write("/dev/dri/" + render);
}

TEST(ProbeDevices, B26IntelGpusAreTheDiscreteOnes) {
    FakeTree tree;
    drm_card(tree, 0, "0x8086", "i915", "0000:00:02.0");  // integrated
    drm_card(tree, 1, "0x8086", "xe", "0000:4d:00.0");
    drm_card(tree, 2, "0x8086", "i915", "0000:9a:00.0");
    drm_card(tree, 3, "0x1002", "amdgpu", "0000:03:00.0");
    drm_card(tree, 4, "0x8086", "vfio-pci", "0000:9b:00.0");
    tree.directory("/sys/class/drm/card1-DP-1");
    EXPECT_EQ(from_files(tree), (Lines{"Intel 0  0000:4d:00.0 0", "Intel 1  0000:9a:00.0 0"}));
    EXPECT_THAT(probe_devices(ProbeDepth::files, tree.roots()).looked_at,
                Contains(HasSubstr("2 discrete Intel GPUs, integrated graphics not counted")));
}

TEST(ProbeDevices, AnIntelGpuInTheIntegratedSlotWithMemoryOfItsOwnIsDiscrete) {
    FakeTree tree;
    drm_card(tree, 0, "0x8086", "i915", "0000:00:02.0").write("/sys/class/drm/card0/lmem_total_bytes", "17179869184\n");
    EXPECT_EQ(from_files(tree).size(), 1U);
    std::filesystem::remove(tree.root() + "/dev/dri/renderD128");
    EXPECT_EQ(from_files(tree).size(), 0U);
}

TEST(ProbeDevices, PlugInDevicesAreCountedByTheirNodes) {
    FakeTree tree;
    for (const char* node : {"davinci_manager", "davinci0", "davinci1", "cambricon_ctl", "cambricon_dev0", "mtgpu.0",
                             "mtgpu.1", "mtgpu.2", "accel/accel0", "accel/accel1", "accel/accel_controlD0"})
        tree.write(std::string("/dev/") + node);
    tree.write("/sys/class/accel/accel0/device/vendor", "0x1da3\n");
    tree.write("/sys/class/accel/accel1/device/vendor", "0x8086\n");
    const auto counts = probe_devices(ProbeDepth::files, tree.roots()).plugin_devices;
    EXPECT_EQ(counts, (std::map<std::string, int>{{"npu", 2}, {"hpu", 1}, {"mlu", 1}, {"musa", 3}}));
}

TEST(ProbeDevices, EveryPlugInNameIsLookedFor) {
    const FakeTree tree;
    const auto counts = probe_devices(ProbeDepth::files, tree.roots()).plugin_devices;
    for (const std::string& name : plugin_backend_names()) EXPECT_EQ(counts.count(name), 1U) << name;
}

TEST(ProbeDevices, AHostileTreeNeitherBlocksNorCounts) {
    FakeTree tree;
    tree.nvidia_gpu(0, "0000:3b:00.0", "GPU-aa");
    const std::string gpus = "/proc/driver/nvidia/gpus/";
    tree.fifo(gpus + "a/information").link(gpus + "b/information", "/dev/zero").link(gpus + "c", "c");
    tree.write(gpus + "d/information", std::string(1 << 20, '\0')).directory(gpus + "e/information");
    tree.write(gpus + "f/information", "Device Minor: 99999999999999999999\nGPU UUID: x\n");
    tree.fifo("/sys/class/kfd/kfd/topology/nodes/1/gpu_id").write("/dev/kfd");
    tree.fifo("/sys/class/drm/card0/device/vendor").link("/sys/class/drm/card1", "card1");
    const DeviceFacts facts = probe_devices(ProbeDepth::files, tree.roots());
    EXPECT_EQ(facts.devices.front().uuid, "GPU-aa");
    EXPECT_LE(facts.devices.size(), 2U);
}

TEST(ProbeDevices, ThisMachineIsProbedWithoutTrouble) {
    EXPECT_FALSE(probe_devices(ProbeDepth::drivers).looked_at.empty());
}

}  // namespace
}  // namespace cpprun
