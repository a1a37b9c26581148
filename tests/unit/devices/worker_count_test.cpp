// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/worker_count.hpp"

#include "unit/devices/machines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cpprun {
namespace {

using testing::HasSubstr;

Result<WorkerCount> count(std::string_view word, const DeviceFacts& devices, const Environment& environment = {}) {
    return count_workers(word, machines::cpus(3), devices, environment, CpuCountRule::quota);
}

std::string explanation(std::string_view word, const DeviceFacts& devices, const Environment& environment = {}) {
    return count(word, devices, environment).value().explanation;
}

std::string refusal(std::string_view word, const DeviceFacts& devices, const Environment& environment = {}) {
    const auto result = count(word, devices, environment);
    if (result) return "not refused";
    EXPECT_EQ(result.error().kind, ErrorKind::usage);
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
    return result.error().message;
}

TEST(WorkerCount, B26CpuCountsTheCpusAndSaysWhy) {
    const auto result = count("cpu", machines::devices(4)).value();
    EXPECT_EQ(result.count, 3);
    EXPECT_EQ(result.kind, "cpu");
    EXPECT_EQ(result.explanation, "cpu -> 3 (affinity mask of 3 CPUs)");
}

TEST(WorkerCount, B26GpuCountsTheVisibleOnes) {
    EXPECT_EQ(explanation("gpu", machines::devices(4)), "gpu -> 4 (4 NVIDIA devices)");
    EXPECT_EQ(explanation("gpu", machines::devices(4), {{"CUDA_VISIBLE_DEVICES", "0,9,1"}}),
              "gpu -> 1 (1 of 4 NVIDIA devices, CUDA_VISIBLE_DEVICES=0,9,1)");
    EXPECT_EQ(explanation("gpu", machines::devices(2, DeviceKind::rocm)), "gpu -> 2 (2 AMD devices)");
}

TEST(WorkerCount, B26AutoTakesTheAcceleratorElseTheCpus) {
    EXPECT_EQ(explanation("auto", machines::devices(4)), "auto -> 4 (gpu: 4 NVIDIA devices)");
    EXPECT_EQ(explanation("auto", machines::devices(1, DeviceKind::xpu)), "auto -> 1 (xpu: 1 Intel device)");
    EXPECT_EQ(explanation("auto", {}), "auto -> 3 (cpu: affinity mask of 3 CPUs)");
    EXPECT_EQ(explanation("auto", machines::devices(4), {{"CUDA_VISIBLE_DEVICES", "-1"}}),
              "auto -> 3 (cpu: affinity mask of 3 CPUs)");
}

TEST(WorkerCount, B26NoGpuIsAnErrorThatSaysWhatWasLookedAt) {
    const std::string message =
        refusal("gpu", machines::devices(0), {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"NVIDIA_VISIBLE_DEVICES", "void"}});
    for (const char* part :
         {"nproc_per_node=gpu: Cuda is not available.", "CUDA_VISIBLE_DEVICES=0,1", "HIP_VISIBLE_DEVICES (not set)",
          "ROCR_VISIBLE_DEVICES (not set)", "NVIDIA_VISIBLE_DEVICES=void", "/proc/driver/nvidia/gpus: not there",
          "/dev/nvidia0: not there", "NVML: not loaded", "/sys/class/kfd: not there"})
        EXPECT_THAT(message, HasSubstr(part));
}

TEST(WorkerCount, AHiddenGpuIsNotReplacedByAnotherKind) {
    DeviceFacts facts = machines::devices(2);
    facts.devices.push_back({DeviceKind::xpu, 0, "", "", {}});
    EXPECT_THAT(refusal("gpu", facts, {{"CUDA_VISIBLE_DEVICES", ""}}), HasSubstr("Cuda is not available."));
    EXPECT_EQ(count("gpu", facts, {{"CUDA_VISIBLE_DEVICES", ""}}).error().hint,
              "there are 1 Intel device: use xpu or auto");
    EXPECT_EQ(explanation("auto", facts, {{"CUDA_VISIBLE_DEVICES", ""}}), "auto -> 1 (xpu: 1 Intel device)");
}

TEST(WorkerCount, XpuCountsIntelDevices) {
    EXPECT_EQ(explanation("xpu", machines::devices(3, DeviceKind::xpu), {{"ZE_AFFINITY_MASK", "0,2"}}),
              "xpu -> 2 (2 of 3 Intel devices, ZE_AFFINITY_MASK=0,2)");
    EXPECT_THAT(refusal("xpu", machines::devices(2)), HasSubstr("Xpu is not available."));
}

TEST(WorkerCount, PlugInBackendsAreCountedByTheirDevices) {
    DeviceFacts facts;
    facts.plugin_devices = {{"npu", 8}, {"mlu", 0}};
    EXPECT_EQ(explanation("npu", facts), "npu -> 8 (8 Ascend devices)");
    EXPECT_EQ(explanation("npu", facts, {{"ASCEND_RT_VISIBLE_DEVICES", "0,1"}}),
              "npu -> 2 (2 of 8 Ascend devices, ASCEND_RT_VISIBLE_DEVICES=0,1)");
    EXPECT_EQ(explanation("auto", facts), "auto -> 8 (npu: 8 Ascend devices)");
    EXPECT_THAT(refusal("mlu", facts), HasSubstr("mlu is not available."));
    EXPECT_THAT(refusal("hpu", facts), HasSubstr("HABANA_VISIBLE_MODULES (not set)"));
}

TEST(WorkerCount, TheUnnamedPlugInIsExplained) {
    EXPECT_THAT(refusal("privateuseone", {}), HasSubstr("privateuseone is not available."));
    EXPECT_THAT(count("privateuseone", {}).error().hint, HasSubstr("npu"));
}

TEST(WorkerCount, UnknownWordsAreNamedWithTheAcceptedForms) {
    for (const char* word : {"", "CPU", "unknown", "2.0", "0x2", "gpus", "auto "}) {
        const std::string message = refusal(word, machines::devices(2));
        EXPECT_THAT(message, HasSubstr(std::string("Unsupported nproc_per_node value: ") + word));
        EXPECT_THAT(message, HasSubstr("accepted: a whole number, cpu, gpu, xpu, auto"));
    }
}

TEST(WorkerCount, AnOddWordStaysOnOneLine) {
    EXPECT_THAT(refusal("a\nb\x1b[31m", {}), HasSubstr("value: a?b?[31m"));
    EXPECT_LT(refusal(std::string(100000, 'x'), {}).size(), 1000U);
}

TEST(WorkerCount, B27SeveralMigSlicesAreOneWorkerAndAHint) {
    const Environment environment{{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b"}};
    const auto shared = count("gpu", machines::devices(2), environment).value();
    EXPECT_EQ(shared.count, 1);
    ASSERT_EQ(shared.notices.size(), 1U);
    EXPECT_THAT(shared.notices.front().text, HasSubstr("--virtual-local-rank"));
    EXPECT_THAT(shared.notices.front().text, HasSubstr("CUDA_VISIBLE_DEVICES=MIG-a,MIG-b"));
}

TEST(WorkerCount, B27AGpuCutIntoSlicesIsOneWorkerAndAHint) {
    DeviceFacts facts = machines::devices(2);
    facts.devices[0].mig_uuids = {"MIG-1111", "MIG-2222"};
    const auto result = count("gpu", facts).value();
    EXPECT_EQ(result.count, 1);
    ASSERT_EQ(result.notices.size(), 1U);
    EXPECT_THAT(result.notices.front().text, HasSubstr("list their names in CUDA_VISIBLE_DEVICES"));
    EXPECT_TRUE(count("gpu", facts, {{"CUDA_VISIBLE_DEVICES", "1"}}).value().notices.empty());
    EXPECT_TRUE(count("gpu", facts, {{"CUDA_VISIBLE_DEVICES", "MIG-1111"}}).value().notices.empty());
}

TEST(WorkerCount, B27WithOneDevicePerWorkerEachMigSliceCounts) {
    const auto result = count_workers("gpu", machines::cpus(3), machines::devices(2),
                                      {{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b"}}, CpuCountRule::quota, true)
                            .value();
    EXPECT_EQ(result.count, 2);
    EXPECT_TRUE(result.notices.empty());
    EXPECT_EQ(result.explanation, "gpu -> 2 (2 NVIDIA MIG slices, CUDA_VISIBLE_DEVICES=MIG-a,MIG-b)");
}

TEST(WorkerCount, B28MoreWorkersThanDevicesIsOneWarning) {
    const auto notices = check_worker_count(4, machines::devices(8), {{"CUDA_VISIBLE_DEVICES", "0,1"}});
    ASSERT_EQ(notices.size(), 1U);
    EXPECT_EQ(notices.front().level, Notice::Level::warning);
    for (const char* part : {"4 workers", "2 NVIDIA devices", "CUDA_VISIBLE_DEVICES=0,1", "8 there"})
        EXPECT_THAT(notices.front().text, HasSubstr(part));
    EXPECT_EQ(check_worker_count(4, machines::devices(2), {}).size(), 1U);
}

TEST(WorkerCount, B28EnoughDevicesNoDevicesOrNoneWantedIsNoWarning) {
    EXPECT_TRUE(check_worker_count(2, machines::devices(2), {}).empty());
    EXPECT_TRUE(check_worker_count(64, machines::devices(0), {}).empty());
    EXPECT_TRUE(check_worker_count(4, machines::devices(2), {{"CUDA_VISIBLE_DEVICES", ""}}).empty());
    EXPECT_TRUE(check_worker_count(4, machines::devices(2), {{"CUDA_VISIBLE_DEVICES", "-1"}}).empty());
}

TEST(WorkerCount, B28AListThatHidesAllByMistakeIsAWarning) {
    EXPECT_EQ(check_worker_count(1, machines::devices(2), {{"CUDA_VISIBLE_DEVICES", "9"}}).size(), 1U);
}

TEST(WorkerCount, B28MigSlicesCountAsTheModeSays) {
    const Environment environment{{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b"}};
    EXPECT_EQ(check_worker_count(2, machines::devices(1), environment).size(), 1U);
    EXPECT_TRUE(check_worker_count(2, machines::devices(1), environment, true).empty());
}

}  // namespace
}  // namespace cpprun
