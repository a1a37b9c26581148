// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/cpu_count.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

CpuFacts eight_cpus(std::optional<double> quota) {
    return {.affinity = {0, 1, 2, 3, 4, 5, 6, 7},
            .online = 96,
            .quota_cpus = quota,
            .quota_source = "/sys/fs/cgroup/cpu.max"};
}

TEST(CpuCount, B26TheAffinityMaskCountsNotTheMachine) {
    const CpuCount count = count_cpus(eight_cpus({}), CpuCountRule::quota);
    EXPECT_EQ(count.count, 8);
    EXPECT_EQ(count.reason, "affinity mask of 8 CPUs");
}

TEST(CpuCount, B26AQuotaIsRoundedUpToWholeCpus) {
    const CpuCount count = count_cpus(eight_cpus(1.5), CpuCountRule::quota);
    EXPECT_EQ(count.count, 2);
    EXPECT_EQ(count.reason, "affinity mask of 8 CPUs, quota of 1.5 CPUs in /sys/fs/cgroup/cpu.max");
}

TEST(CpuCount, AQuotaBelowOneCpuStillGivesOneWorker) {
    EXPECT_EQ(count_cpus(eight_cpus(0.05), CpuCountRule::quota).count, 1);
}

TEST(CpuCount, AQuotaAboveTheMaskChangesNothing) {
    const CpuCount count = count_cpus(eight_cpus(7.5), CpuCountRule::quota);
    EXPECT_EQ(count.count, 8);
    EXPECT_EQ(count_cpus(eight_cpus(40), CpuCountRule::quota).reason, "affinity mask of 8 CPUs");
}

TEST(CpuCount, TheRuleOfTorchrunIgnoresTheQuota) {
    EXPECT_EQ(count_cpus(eight_cpus(1.5), CpuCountRule::affinity).count, 8);
}

TEST(CpuCount, WithoutAMaskAllOnlineCpusCount) {
    EXPECT_EQ(count_cpus({.affinity = {}, .online = 6}, CpuCountRule::quota).count, 6);
    EXPECT_EQ(count_cpus({.affinity = {}, .online = 0}, CpuCountRule::quota).count, 1);
    EXPECT_EQ(count_cpus({.affinity = {5}}, CpuCountRule::quota).reason, "affinity mask of 1 CPU");
}

TEST(CpuCount, AQuotaThatIsNoPositiveNumberIsNone) {
    EXPECT_EQ(count_cpus(eight_cpus(0.0), CpuCountRule::quota).count, 8);
    EXPECT_EQ(count_cpus(eight_cpus(-1.0), CpuCountRule::quota).count, 8);
    EXPECT_EQ(count_cpus(eight_cpus(std::stod("nan")), CpuCountRule::quota).count, 8);
}

}  // namespace
}  // namespace cpprun
