// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/worker_env.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

LaunchConfig two_workers() {
    LaunchConfig config;
    config.nproc_per_node = 2;
    config.rendezvous.run_id = "job";
    config.max_restarts = 3;
    config.stop.signals_to_handle_text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
    return config;
}

WorkerPlace place_of(int local_rank) {
    return {local_rank, assign_ranks({{"default", 2}})[0], 1, 0, {"127.0.0.1", 4711, true}, "/tmp/e.json", ""};
}

TEST(WorkerEnvironment, HoldsExactlyTheVariablesOfTheContract) {
    const Environment expected{
        {"LOCAL_RANK", "1"},
        {"RANK", "1"},
        {"GROUP_RANK", "0"},
        {"ROLE_RANK", "1"},
        {"ROLE_NAME", "default"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"WORLD_SIZE", "2"},
        {"GROUP_WORLD_SIZE", "1"},
        {"ROLE_WORLD_SIZE", "2"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", "4711"},
        {"TORCHELASTIC_RESTART_COUNT", "1"},
        {"TORCHELASTIC_MAX_RESTARTS", "3"},
        {"TORCHELASTIC_RUN_ID", "job"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
        {"TORCHELASTIC_ERROR_FILE", "/tmp/e.json"},
        {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
    };
    EXPECT_EQ(worker_variables(two_workers(), place_of(1), {}), expected);
}

TEST(WorkerEnvironment, OnlyTheRanksVariablesDifferFromWorkerToWorker) {
    EXPECT_EQ(group_variables(two_workers(), place_of(0), {}), group_variables(two_workers(), place_of(1), {}));
    for (const auto& [name, value] : rank_variables(two_workers(), place_of(1)))
        EXPECT_FALSE(group_variables(two_workers(), place_of(1), {}).contains(name)) << name;
}

TEST(WorkerEnvironment, AnInheritedNcclSwitchIsKeptEvenWhenEmpty) {
    for (const char* value : {"0", "", "2"}) {
        const Environment out =
            worker_variables(two_workers(), place_of(0), {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", value}});
        EXPECT_EQ(out.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), value);
    }
}

TEST(WorkerEnvironment, AWorkerHostedStoreIsSaidInPythonsSpelling) {
    WorkerPlace place = place_of(0);
    place.master.agent_store = false;
    EXPECT_EQ(worker_variables(two_workers(), place, {}).at("TORCHELASTIC_USE_AGENT_STORE"), "False");
}

TEST(WorkerEnvironment, OmpAndTimerAppearOnlyWhenTheyAreDecided) {
    LaunchConfig config = two_workers();
    WorkerPlace place = place_of(0);
    EXPECT_FALSE(worker_variables(config, place, {}).contains("OMP_NUM_THREADS"));
    config.omp_num_threads = "1";
    place.timer_file = "/tmp/t";
    const Environment out = worker_variables(config, place, {});
    EXPECT_EQ(out.at("OMP_NUM_THREADS"), "1");
    EXPECT_EQ(out.at("TORCHELASTIC_TIMER_FILE"), "/tmp/t");
}

TEST(WorkerEnvironment, VirtualLocalRankIsZeroForAllAndTouchesNoOtherRank) {
    LaunchConfig config = two_workers();
    config.virtual_local_rank = true;
    const Environment out = worker_variables(config, place_of(1), {});
    EXPECT_EQ(out.at("LOCAL_RANK"), "0");
    EXPECT_EQ(out.at("RANK"), "1");
    EXPECT_EQ(out.at("ROLE_RANK"), "1");
}

}  // namespace
}  // namespace cpprun
