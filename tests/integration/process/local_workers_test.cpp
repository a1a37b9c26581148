// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/local_workers.hpp"

#include "runtime/process/ancestry.hpp"
#include "support/temp_dir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <sys/wait.h>
#include <unistd.h>

namespace cpprun {
namespace {

SpawnSpec shell(const std::string& command) {
    SpawnSpec spec;
    spec.executable = "/bin/sh";
    spec.argv = {"sh", "-c", command};
    spec.environment = {"PATH=/usr/bin:/bin"};
    return spec;
}

/// Workers whose ends are noted; run_until waits for facts, with a bound against hanging.
class Group {
  public:
    explicit Group(std::unique_ptr<Containment> in)
        : containment(std::move(in)),
          workers(io, *containment, [this](int rank, ExitStatus status) { ends[rank] = status; }) {}
    bool start(const SpawnSpec& spec) { return workers.start(spec) && workers.watch(); }
    bool run_until(const std::function<bool()>& fact) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!fact() && std::chrono::steady_clock::now() < deadline) io.run_for(std::chrono::milliseconds(10));
        return fact();
    }
    /// Whether a process that was started by one of them is gone, or a zombie of somebody's.
    bool gone(pid_t pid) {
        return run_until([&] { return !process_state(pid).lives(); });
    }
    boost::asio::io_context io;
    std::unique_ptr<Containment> containment;
    std::map<int, ExitStatus> ends;
    LocalWorkers workers;
};

/// In each tier that the machine offers.
class LocalWorkersIn : public testing::TestWithParam<ContainmentTier> {
  protected:
    void SetUp() override {
        std::vector<std::string> refusals;
        auto opened = open_containment(GetParam(), refusals);
        if (!opened) GTEST_SKIP() << opened.error().message;
        containment_ = std::move(opened.value());
    }
    std::unique_ptr<Containment> open() { return std::move(containment_); }

  private:
    std::unique_ptr<Containment> containment_;
};
INSTANTIATE_TEST_SUITE_P(Tier, LocalWorkersIn,
                         testing::Values(ContainmentTier::cgroup, ContainmentTier::guard, ContainmentTier::group),
                         [](const auto& tier) { return tier_name(tier.param); });

pid_t pid_in(const std::string& path) {
    pid_t pid = 0;
    std::ifstream(path) >> pid;
    return pid;
}

TEST_P(LocalWorkersIn, ReportEveryExitCodeAndEverySignalAsItWas) {
    Group group(open());
    std::map<int, ExitStatus> expected;
    for (const int code : {0, 1, 2, 9, 126, 127, 128, 137, 255}) {
        expected[group.workers.count()] = ExitStatus::exited(code);
        ASSERT_TRUE(group.start(shell("exit " + std::to_string(code))));
    }
    for (const int signo : {SIGTERM, SIGKILL, SIGINT, SIGHUP, SIGUSR1, 34, 40, 64}) {
        expected[group.workers.count()] = ExitStatus::killed_by(signo);
        ASSERT_TRUE(group.start(shell("kill -" + std::to_string(signo) + " $$")));
    }
    ASSERT_TRUE(group.run_until([&] { return group.ends.size() == expected.size(); }));
    EXPECT_EQ(group.ends, expected);
    group.workers.release(false);
    group.containment.reset();
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a zombie was left";
}

TEST_P(LocalWorkersIn, SignalsReachTheWholeProcessGroupButNotTheDead) {
    const test::TempDir dir;
    Group group(open());
    ASSERT_TRUE(group.start(shell("exit 0")));
    ASSERT_TRUE(group.start(shell("(trap 'touch " + (dir / "child") + "; exit' TERM; touch " + (dir / "ready") +
                                  "; sleep 300 & wait) & "
                                  "trap 'wait; exit 3' TERM; wait")));
    ASSERT_TRUE(group.run_until([&] { return group.ends.contains(0) && std::filesystem::exists(dir / "ready"); }));
    group.workers.signal(0, SIGTERM);
    group.workers.signal(1, SIGTERM);
    ASSERT_TRUE(group.run_until([&] { return group.ends.contains(1); }));
    EXPECT_TRUE(std::filesystem::exists(dir / "child"));
    group.workers.release(true);
}

/// Leaves a child, one in a session of its own, and one that has detached itself and ignores SIGTERM; their pids stand
/// in files 1, 2 and 3 of DIR.
std::string leaves_three_behind(const test::TempDir& dir, const std::string& then) {
    const auto path = [&](int i) { return dir / std::to_string(i); };
    return "sleep 300 & echo $! > " + path(1) + "; setsid sh -c 'echo $$ > " + path(2) +
           "; exec sleep 300' & (setsid sh -c 'trap \"\" TERM; echo $$ > " + path(3) +
           "; exec sleep 300' &); while ! [ -s " + path(2) + " ] || ! [ -s " + path(3) + " ]; do sleep 0.01; done; " +
           then;
}

TEST_P(LocalWorkersIn, AKilledTreeIsGoneHoweverItDetachedItself) {
    const test::TempDir dir;
    Group group(open());
    ASSERT_TRUE(group.start(shell(leaves_three_behind(dir, "exit 1"))));
    ASSERT_TRUE(group.run_until([&] { return group.ends.contains(0); }));
    const bool all = GetParam() != ContainmentTier::group;
    EXPECT_GE(group.workers.tree(0).size(), all ? 3U : 1U);
    group.workers.kill_tree(0);
    EXPECT_TRUE(group.run_until([&] {
        group.workers.kill_tree(0);
        return group.workers.left().empty();
    }));
    for (const int i : {1, 2, 3}) {
        const pid_t pid = pid_in(dir / std::to_string(i));
        ASSERT_GT(pid, 0);
        if (i == 1 || all) EXPECT_TRUE(group.gone(pid)) << i;
        if (pid > 0) ::kill(pid, SIGKILL);
    }
    group.workers.release(true);
}

TEST_P(LocalWorkersIn, WhatIsLetGoRunsOn) {
    const test::TempDir dir;
    Group group(open());
    ASSERT_TRUE(group.start(shell(leaves_three_behind(dir, "exit 0"))));
    ASSERT_TRUE(group.run_until([&] { return group.ends.contains(0); }));
    group.workers.release(false);
    group.containment.reset();
    for (const int i : {1, 2, 3}) {
        const pid_t pid = pid_in(dir / std::to_string(i));
        EXPECT_TRUE(process_state(pid).lives()) << i;
        if (pid > 0) ::kill(pid, SIGKILL);
    }
}

TEST_P(LocalWorkersIn, ATreeIsToldOnceAndOnlyWhoWasNotReachedBefore) {
    const test::TempDir dir;
    Group group(open());
    const auto counts = [&](const std::string& name, const std::string& ready) {
        return "sh -c 'trap \"echo told >> " + (dir / name) + "\" TERM; echo $$ > " + (dir / ready) +
               "; while :; do sleep 0.01; done'";
    };
    ASSERT_TRUE(group.start(shell(counts("same", "ready1") + " & setsid " + counts("other", "ready2") +
                                  " & trap 'exit 0' TERM; while :; do sleep 0.01; done")));
    ASSERT_TRUE(group.run_until(
        [&] { return std::filesystem::exists(dir / "ready1") && std::filesystem::exists(dir / "ready2"); }));
    group.workers.signal(0, SIGTERM);
    ASSERT_TRUE(group.run_until([&] { return group.ends.contains(0); }));
    group.workers.signal_trees({0}, SIGTERM);
    const auto told = [&](const std::string& name) {
        std::ifstream file(dir / name);
        return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
    };
    EXPECT_TRUE(group.run_until([&] { return told("same") == 1; }));
    if (GetParam() != ContainmentTier::group) EXPECT_TRUE(group.run_until([&] { return told("other") == 1; }));
    group.workers.kill_tree(0);
    EXPECT_TRUE(group.run_until([&] { return group.workers.left().empty(); }));
    EXPECT_EQ(told("same"), 1);
    group.workers.release(true);
    if (const pid_t escaped = pid_in(dir / "ready2"); escaped > 0) ::kill(escaped, SIGKILL);
}

TEST_P(LocalWorkersIn, TreesOfSeveralAreToldApartInOneLook) {
    const test::TempDir dir;
    Group group(open());
    for (const int rank : {0, 1, 2}) {
        const std::string child = "sh -c 'echo $$ > " + (dir / std::to_string(rank)) + "; exec sleep 300' & ";
        ASSERT_TRUE(group.start(shell((rank == 1 ? "" : child) + "exec sleep 300")));
    }
    ASSERT_TRUE(group.run_until([&] { return pid_in(dir / "0") > 0 && pid_in(dir / "2") > 0; }));
    const std::vector<std::vector<pid_t>> expected{{pid_in(dir / "0")}, {}, {pid_in(dir / "2")}};
    EXPECT_EQ(group.workers.trees(), expected);
    group.workers.kill_trees();
    EXPECT_TRUE(group.run_until([&] { return group.ends.size() == 3 && group.workers.left().empty(); }));
    group.workers.release(true);
}

TEST_P(LocalWorkersIn, ATreeOfAThousandIsKilledAtOnce) {
    Group group(open());
    ASSERT_TRUE(group.start(shell("i=0; while [ $i -lt 1000 ]; do sleep 300 & i=$((i+1)); done; wait")));
    ASSERT_TRUE(group.run_until([&] { return group.workers.tree(0).size() == 1000; }));
    group.workers.kill_tree(0);
    EXPECT_TRUE(group.run_until([&] { return group.ends.contains(0) && group.workers.left().empty(); }));
    group.workers.release(true);
}

TEST_P(LocalWorkersIn, KnowTheStateOfAProcessWithAnOddName) {
    Group group(open());
    ASSERT_TRUE(group.start(shell("exec sleep 300")));
    ASSERT_TRUE(group.run_until([&] { return group.workers.state_letter(0) == 'S'; }));
    group.workers.signal(0, SIGKILL);
    ASSERT_TRUE(group.run_until([&] { return group.ends.contains(0); }));
    group.workers.release(false);
}

}  // namespace
}  // namespace cpprun
