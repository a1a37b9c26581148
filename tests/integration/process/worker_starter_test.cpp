// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/agent/worker_starter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cpprun {
namespace {

using testing::Contains;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> texts(const SpawnSpec& spec) {
    return {spec.environment.begin(), spec.environment.end()};
}

class Starter : public testing::Test {
  protected:
    Starter() {
        config.nproc_per_node = 2;
        config.program.kind = ProgramKind::executable;
        config.program.script = "sh";
    }
    WorkerPlace place(int local_rank) const {
        return {local_rank, assign_ranks({{"default", 2}})[0], restart_count, 0, {"127.0.0.1", 4711, true}, "/tmp/e",
                ""};
    }
    LaunchConfig config;
    int restart_count = 0;
    Environment environment{{"PATH", "/absent:/bin"}, {"RANK", "9"}, {"MASTER_PORT", "1"}, {"OTHER", "a=b"}};
    std::optional<VirtualDevices> devices;
};

TEST_F(Starter, GivesEachWorkerItsOwnVariablesAndAllTheRestOnce) {
    WorkerStarter starter(config, environment, devices);
    starter.begin_attempt(place(0));
    const auto first = texts(starter.prepare(place(0)));
    const auto second = texts(starter.prepare(place(1)));
    EXPECT_THAT(first, Contains("RANK=0"));
    EXPECT_THAT(second, Contains("RANK=1"));
    for (const auto& worker : {first, second}) {
        EXPECT_THAT(worker, Contains(StartsWith("RANK=")).Times(1));
        EXPECT_THAT(worker, Contains(StartsWith("MASTER_PORT=")).Times(1));
        EXPECT_THAT(worker, Contains("MASTER_PORT=4711"));
        EXPECT_THAT(worker, Contains("OTHER=a=b"));
    }
}

TEST_F(Starter, TheNextAttemptKeepsNothingOfTheFormer) {
    WorkerStarter starter(config, environment, devices);
    starter.begin_attempt(place(0));
    restart_count = 1;
    starter.begin_attempt(place(0));
    const auto worker = texts(starter.prepare(place(0)));
    EXPECT_THAT(worker, Contains("TORCHELASTIC_RESTART_COUNT=1"));
    EXPECT_THAT(worker, Not(Contains("TORCHELASTIC_RESTART_COUNT=0")));
}

TEST_F(Starter, ADealtDeviceReplacesTheInheritedList) {
    environment["CUDA_VISIBLE_DEVICES"] = "4,7";
    devices = VirtualDevices{{"CUDA_VISIBLE_DEVICES"}, {"4", "7"}};
    WorkerStarter starter(config, environment, devices);
    starter.begin_attempt(place(0));
    const auto worker = texts(starter.prepare(place(1)));
    EXPECT_THAT(worker, Contains(StartsWith("CUDA_VISIBLE_DEVICES=")).Times(1));
    EXPECT_THAT(worker, Contains("CUDA_VISIBLE_DEVICES=7"));
}

TEST_F(Starter, FindsABareNameOnPathAndLeavesANativeScriptWhereItIs) {
    WorkerStarter starter(config, environment, devices);
    starter.begin_attempt(place(0));
    EXPECT_EQ(starter.prepare(place(0)).executable, "/bin/sh");
    EXPECT_EQ(starter.prepare(place(0)).argv.front(), "sh");
    config.program.native_script = true;
    config.program.script = "sh${local_rank}";
    starter.begin_attempt(place(0));
    EXPECT_EQ(starter.prepare(place(1)).executable, "sh1");
}

}  // namespace
}  // namespace cpprun
