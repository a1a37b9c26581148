// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/local_workers.hpp"

#include "support/temp_dir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
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
    Group() : workers(io, [this](int rank, ExitStatus status) { ends[rank] = status; }) {}
    bool start(const SpawnSpec& spec) { return workers.start(spec) && workers.watch(); }
    bool run_until(const std::function<bool()>& fact) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!fact() && std::chrono::steady_clock::now() < deadline) io.run_for(std::chrono::milliseconds(10));
        return fact();
    }
    boost::asio::io_context io;
    std::map<int, ExitStatus> ends;
    LocalWorkers workers;
};

TEST(LocalWorkers, ReportEveryExitCodeAndEverySignalAsItWas) {
    Group group;
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
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a zombie was left";
}

TEST(LocalWorkers, SignalsReachTheWholeProcessGroupButNotTheDead) {
    const test::TempDir dir;
    Group group;
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

TEST(LocalWorkers, ReleaseTakesWhatIsLeftInAFailedWorkersGroupWithIt) {
    const test::TempDir dir;
    Group group;
    ASSERT_TRUE(group.start(shell("sleep 300 & echo $! > " + (dir / "pid") + "; exit 1")));
    ASSERT_TRUE(group.run_until([&] { return group.ends.contains(0); }));
    int left = 0;
    std::ifstream(dir / "pid") >> left;
    ASSERT_GT(left, 0);
    ASSERT_EQ(::kill(left, 0), 0);
    group.workers.release(true);
    // Its new parent may be slow to reap it.
    ASSERT_TRUE(group.run_until([&] {
        std::ifstream stat("/proc/" + std::to_string(left) + "/stat");
        std::string line;
        return !std::getline(stat, line) || line.find(") Z ") != std::string::npos;
    }));
}

TEST(LocalWorkers, KnowTheStateOfAProcessWithAnOddName) {
    Group group;
    ASSERT_TRUE(group.start(shell("exec sleep 300")));
    ASSERT_TRUE(group.run_until([&] { return group.workers.state_letter(0) == 'S'; }));
    group.workers.signal(0, SIGKILL);
    ASSERT_TRUE(group.run_until([&] { return group.ends.contains(0); }));
    group.workers.release(false);
}

}  // namespace
}  // namespace cpprun
