// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/devices/probe_cpus.hpp"

#include "core/devices/cpu_count.hpp"
#include "integration/devices/fake_tree.hpp"

#include <gtest/gtest.h>

#include <sched.h>
#include <thread>

namespace cpprun {
namespace {

TEST(ProbeCpus, B26TheMaskIsThatOfThisProcess) {
    // In a thread of its own, since a mask belongs to a thread and the test runner keeps its own.
    std::thread([] {
        const std::vector<int> all = probe_cpus().affinity;
        ASSERT_FALSE(all.empty());
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<std::size_t>(all.back()), &one);
        ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
        EXPECT_EQ(probe_cpus().affinity, std::vector<int>{all.back()});
    }).join();
}

TEST(ProbeCpus, WithoutCgroupsThereIsNoQuota) {
    const FakeTree tree;
    const CpuFacts facts = probe_cpus(tree.roots());
    EXPECT_FALSE(facts.quota_cpus);
    EXPECT_GE(facts.online, 1);
}

TEST(ProbeCpus, B26AV2QuotaIsFound) {
    FakeTree tree;
    tree.write("/proc/self/cgroup", "0::/\n").write("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    const CpuFacts facts = probe_cpus(tree.roots());
    ASSERT_TRUE(facts.quota_cpus);
    EXPECT_DOUBLE_EQ(*facts.quota_cpus, 1.5);
    EXPECT_EQ(facts.quota_source, tree.root() + "/sys/fs/cgroup/cpu.max");
    CpuFacts many = facts;
    many.affinity = {0, 1, 2, 3};
    EXPECT_EQ(count_cpus(many, CpuCountRule::quota).count, 2);
}

TEST(ProbeCpus, TheTightestOfAllAncestorsCounts) {
    FakeTree tree;
    tree.write("/proc/self/cgroup", "0::/pods/job/step\n")
        .write("/sys/fs/cgroup/cpu.max", "800000 100000\n")
        .write("/sys/fs/cgroup/pods/cpu.max", "max 100000\n")
        .write("/sys/fs/cgroup/pods/job/cpu.max", "300000 100000\n")
        .write("/sys/fs/cgroup/pods/job/step/cpu.max", "400000 100000\n");
    const CpuFacts facts = probe_cpus(tree.roots());
    ASSERT_TRUE(facts.quota_cpus);
    EXPECT_DOUBLE_EQ(*facts.quota_cpus, 3.0);
    EXPECT_EQ(facts.quota_source, tree.root() + "/sys/fs/cgroup/pods/job/cpu.max");
}

TEST(ProbeCpus, InAContainerTheHostsPathLeadsToTheMountsRoot) {
    for (const char* path : {"/docker/0123/x", "/../../host.slice", "relative", ""}) {
        FakeTree tree;
        tree.write("/proc/self/cgroup", std::string("0::") + path + "\n")
            .write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
        ASSERT_TRUE(probe_cpus(tree.roots()).quota_cpus) << path;
        EXPECT_DOUBLE_EQ(*probe_cpus(tree.roots()).quota_cpus, 2.0);
    }
}

TEST(ProbeCpus, AV1QuotaIsFoundUnderBothNamesOfTheMount) {
    for (const char* mount : {"cpu", "cpu,cpuacct"}) {
        FakeTree tree;
        const std::string directory = std::string("/sys/fs/cgroup/") + mount + "/job";
        tree.write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,cpuacct:/job\n3:cpuset:/\n0::/\n")
            .write(directory + "/cpu.cfs_quota_us", "50000\n")
            .write(directory + "/cpu.cfs_period_us", "100000\n");
        const CpuFacts facts = probe_cpus(tree.roots());
        ASSERT_TRUE(facts.quota_cpus) << mount;
        EXPECT_DOUBLE_EQ(*facts.quota_cpus, 0.5);
    }
}

TEST(ProbeCpus, AV1QuotaOfMinusOneIsNone) {
    FakeTree tree;
    tree.write("/proc/self/cgroup", "1:cpu:/\n")
        .write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
        .write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    EXPECT_FALSE(probe_cpus(tree.roots()).quota_cpus);
}

TEST(ProbeCpus, FilesThatMakeNoSenseAreNoQuota) {
    for (const char* text : {"", "max", "x y\n", "-5 100000\n", "100000 0\n", "100000\n", "nan nan\n"}) {
        FakeTree tree;
        tree.write("/proc/self/cgroup", "0::/\n").write("/sys/fs/cgroup/cpu.max", text);
        EXPECT_FALSE(probe_cpus(tree.roots()).quota_cpus) << text;
    }
}

}  // namespace
}  // namespace cpprun
