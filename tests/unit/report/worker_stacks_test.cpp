// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/worker_stacks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cpprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> texts(const Stack& stack) {
    std::vector<std::string> out;
    for (const StackFrame& frame : stack) out.push_back(frame_text(frame));
    return out;
}

WorkerSnapshot at(int rank, Stack stack) {
    WorkerSnapshot worker;
    worker.rank = rank;
    worker.state = 'S';
    worker.stack = std::move(stack);
    return worker;
}

Stack all_reduce() {
    return {{"all_reduce", "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 2806},
            {"wrapper", "/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", 81},
            {"step", "/home/me/train.py", 37}};
}

TEST(WorkerStacks, FaulthandlersMainThreadIsRead) {
    const Stack stack = parse_faulthandler(
        "step 7\nThread 0x00007f01 (most recent call first):\n  File \"/x/threading.py\", line 320 in wait\n\n"
        "Current thread 0x00007f02 (most recent call first):\nnoise of another thread\n"
        "  File \"/x/a, line 1 in b.py\", line 37 in step\n  File \"/x/train.py\", line 40 in <module>\nstep 8\n");
    EXPECT_THAT(texts(stack), ElementsAre("step (a, line 1 in b.py:37)", "<module> (train.py:40)"));
    EXPECT_THAT(parse_faulthandler("nothing of the kind\n"), IsEmpty());
}

TEST(WorkerStacks, OfSeveralDumpsTheLastCounts) {
    EXPECT_THAT(texts(parse_faulthandler("Stack (most recent call first):\n  File \"a.py\", line 1 in f\n"
                                         "Stack (most recent call first):\n  File \"a.py\", line 2 in g\n")),
                ElementsAre("g (a.py:2)"));
}

TEST(WorkerStacks, TheInterpretersOwnCallsAreLeftOut) {
    EXPECT_THAT(texts(parse_faulthandler("Stack (most recent call first):\n  File \"a.py\", line 1 in f\n\n"
                                         "Current thread's C stack trace (most recent call first):\n"
                                         "  Binary file \"python\", at _PyEval+0x12 [0x55]\n")),
                ElementsAre("f (a.py:1)"));
}

TEST(WorkerStacks, ADumpIsCompleteWhenItReachesAModule) {
    EXPECT_FALSE(faulthandler_is_complete("Stack (most recent call first):\n  File \"a.py\", line 1 in f\n"));
    EXPECT_FALSE(faulthandler_is_complete("  File \"a.py\", line 1 in <module>\nStack (most recent call first):\n"));
    EXPECT_TRUE(
        faulthandler_is_complete("Stack (most recent call first):\n  File \"a.py\", line 1 in <module>\nmore\n"));
}

TEST(WorkerStacks, PySpysMainThreadIsRead) {
    EXPECT_THAT(
        texts(parse_py_spy("Process 7: python3 train.py\n\nThread 8 (idle): \"Helper\"\n    poll (a.py:1)\n"
                           "Thread 7 (active): \"MainThread\"\n    step (train.py:37)\n    <module> (train.py:40)\n"
                           "Thread 9 (idle): \"Other\"\n    wait (threading.py:3)\n")),
        ElementsAre("step (train.py:37)", "<module> (train.py:40)"));
}

TEST(WorkerStacks, GdbsFirstThreadIsRead) {
    EXPECT_THAT(
        texts(parse_gdb("Thread 2 (Thread 0x7 (LWP 8) \"x\"):\n#0  0x07 in poll () from /lib/libc.so.6\n\n"
                        "Thread 1 (Thread 0x8 (LWP 7) \"y\"):\n#0  0x01 in ncclWait (c=0x1) from /lib/libnccl.so.2\n"
                        "#1  step (n=3) at src/train.cpp:37\n#2  0x02 in main ()\n")),
        ElementsAre("ncclWait (libnccl.so.2)", "step (train.cpp:37)", "main"));
}

TEST(WorkerStacks, APlaceHasTheNameByWhichUsersKnowIt) {
    EXPECT_EQ(place_of(all_reduce()), "all_reduce");
    EXPECT_EQ(place_of({{"_store_based_barrier", "torch/distributed/distributed_c10d.py", 1},
                        {"init_process_group", "torch/distributed/distributed_c10d.py", 2}}),
              "init_process_group");
    EXPECT_EQ(place_of({{"poll", "/usr/lib/python3.11/multiprocessing/connection.py", 1},
                        {"_try_get_data", "/x/site-packages/torch/utils/data/dataloader.py", 2}}),
              "DataLoader");
    EXPECT_EQ(place_of({{"wait", "/usr/lib/python3.11/threading.py", 320}, {"step", "/x/train.py", 37}}),
              "step (train.py:37)");
    EXPECT_EQ(place_of({{"wait", "/usr/lib/python3.11/threading.py", 320}}), "wait (threading.py:320)");
}

TEST(WorkerStacks, TheHeadlineSaysHowManyAreWhereAndWhoStandsOut) {
    std::vector<WorkerSnapshot> workers;
    for (int rank = 0; rank < 127; ++rank)
        if (rank != 37) workers.push_back(at(rank, all_reduce()));
    workers.push_back(at(37, {{"_next_data", "torch/utils/data/dataloader.py", 5}}));
    const auto places = places_of(group_snapshots(workers));
    EXPECT_EQ(places_text(places), "126 ranks in all_reduce, rank 37 in DataLoader");
    EXPECT_THAT(odd_ranks(places), ElementsAre(37));
}

TEST(WorkerStacks, OfTwoEqualHalvesNobodyStandsOut) {
    EXPECT_THAT(odd_ranks(merge_places({{"a", {0, 1}}, {"b", {2, 3}}})), IsEmpty());
}

TEST(WorkerStacks, PlacesOfSeveralNodesAreOne) {
    EXPECT_EQ(places_text(merge_places({{"all_reduce", {0, 1}}, {"x", {3}}, {"all_reduce", {4, 5, 6}}})),
              "5 ranks in all_reduce, rank 3 in x");
}

TEST(WorkerStacks, WithoutAStackTheKernelsWordCounts) {
    WorkerSnapshot asleep = at(0, {});
    asleep.wait_channel = "futex_do_wait";
    asleep.system_call = "futex";
    WorkerSnapshot busy = at(1, {});
    busy.state = 'R';
    const std::string text = evidence_text({"SIGUSR2", {asleep, busy}});
    EXPECT_THAT(text, HasSubstr("where     : rank 0 in the kernel's futex_do_wait, rank 1 running\n"));
    EXPECT_THAT(text, HasSubstr("rank 0    : asleep in the kernel's futex_do_wait, system call futex"));
}

TEST(WorkerStacks, NothingOfAWorkersReachesTheTerminalAndAllIsBounded) {
    std::string text = "Stack (most recent call first):\n";
    for (int i = 0; i < 300; ++i) text += "  File \"a\033[2J.py\", line 1 in f" + std::string(500, 'x') + "\n";
    const Stack stack = parse_faulthandler(text);
    EXPECT_EQ(stack.size(), frames_max);
    std::vector<WorkerSnapshot> workers;
    for (int rank = 0; rank < 1000; ++rank)
        workers.push_back(at(rank, {{"f" + std::to_string(rank), "a\033[2J.py", rank}}));
    workers.front().stack = stack;
    const HangEvidence evidence{"x\033[2J", workers};
    EXPECT_THAT(evidence_text(evidence), Not(HasSubstr("\033")));
    EXPECT_LT(evidence_text(evidence).size(), 10000U);
    EXPECT_EQ(evidence_json(evidence)["groups"].size(), 256U);
}

}  // namespace
}  // namespace cpprun
