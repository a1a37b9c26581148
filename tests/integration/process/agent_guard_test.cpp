// SPDX-License-Identifier: BSD-3-Clause
// The guard of an agent, which is a process that the test forks and kills.
#include "runtime/process/agent_guard.hpp"

#include "runtime/process/guard_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace cpprun {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A process that waits, leader of a group of its own.
pid_t start_worker() {
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::setpgid(0, 0);
        for (;;) ::pause();
    }
    ::setpgid(pid, pid);
    return pid;
}

bool until(const std::function<bool()>& fact, std::chrono::milliseconds within = 20s) {
    const auto deadline = Clock::now() + within;
    bool is = fact();  // looked at no more once it is so: who reaps does it once
    for (; !is && Clock::now() < deadline; is = fact()) std::this_thread::sleep_for(2ms);
    return is;
}

/// Whether a child of ours has ended, by SIGKILL; reaps it.
bool killed(pid_t pid) {
    int status = 0;
    return ::waitpid(pid, &status, WNOHANG) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/// Whether it runs; a zombie, which waits for whoever reaps orphans, does not.
bool there(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const auto name_end = text.rfind(')');
    return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z' &&
           text[name_end + 2] != 'X';
}

void end(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
}

/// An agent in a process of its own, which tells its guard's pid and then waits to be killed.
struct Agent {
    explicit Agent(const std::function<void(AgentGuard&)>& act) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe(ends.data()), 0);
        pid = ::fork();
        if (pid == 0) {
            auto started = AgentGuard::start();
            if (!started) ::_exit(1);
            act(*started.value());
            const pid_t told = started.value()->pid();
            if (::write(ends[1], &told, sizeof told) != sizeof told) ::_exit(2);
            for (;;) ::pause();
        }
        ::close(ends[1]);
        EXPECT_EQ(::read(ends[0], &guard, sizeof guard), static_cast<ssize_t>(sizeof guard));
        ::close(ends[0]);
    }
    ~Agent() {
        if (pid > 0) end(pid);
    }
    void kill() {
        end(pid);
        pid = -1;
    }
    pid_t pid = -1;
    pid_t guard = -1;
};

TEST(AgentGuard, KillsTheWorkersOfAnAgentThatWasKilled) {
    const pid_t first = start_worker();
    const pid_t second = start_worker();
    Agent agent([&](AgentGuard& guard) {
        guard.watch(first);
        guard.watch(second);
    });
    std::this_thread::sleep_for(50ms);
    ASSERT_TRUE(there(first) && there(second));
    const auto begin = Clock::now();
    agent.kill();
    EXPECT_TRUE(until([&] { return killed(first); }));
    EXPECT_TRUE(until([&] { return killed(second); }));
    EXPECT_LT(Clock::now() - begin, 5s);
    EXPECT_TRUE(until([&] { return !there(agent.guard); })) << "and goes";
}

TEST(AgentGuard, KillsWhoeverIsInAWorkersGroup) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const pid_t leader = ::fork();
    if (leader == 0) {
        ::setpgid(0, 0);
        static_cast<void>(::fork());
        for (;;) ::pause();
    }
    ::setpgid(leader, leader);
    ::close(ends[1]);
    Agent agent([&](AgentGuard& guard) { guard.watch(leader); });
    agent.kill();
    EXPECT_TRUE(until([&] { return killed(leader); }));
    // The pipe's other end is open as long as one of the group lives.
    char byte = 0;
    EXPECT_EQ(::read(ends[0], &byte, 1), 0);
    ::close(ends[0]);
}

TEST(AgentGuard, KillsNobodyWhoIsForgotten) {
    const pid_t worker = start_worker();
    const pid_t later = start_worker();
    Agent agent([&](AgentGuard& guard) {
        guard.watch(worker);
        guard.lease_until(Clock::now() + 100ms);
        guard.forget();
        guard.watch(later);
    });
    EXPECT_TRUE(until([&] { return killed(later); }));
    agent.kill();
    ASSERT_TRUE(until([&] { return !there(agent.guard); }));
    EXPECT_TRUE(there(worker));
    EXPECT_FALSE(killed(worker));
    end(worker);
}

TEST(AgentGuard, KillsWhenTheLeaseOfAnAgentThatStandsStillIsOver) {
    const pid_t worker = start_worker();
    const auto until_when = Clock::now() + 400ms;
    Agent agent([&](AgentGuard& guard) {
        guard.watch(worker);
        guard.lease_until(until_when);
    });
    ::kill(agent.pid, SIGSTOP);
    while (Clock::now() < until_when - 50ms) {
        ASSERT_TRUE(there(worker));
        ASSERT_FALSE(killed(worker));
        std::this_thread::sleep_for(5ms);
    }
    EXPECT_TRUE(until([&] { return killed(worker); }));
    EXPECT_LT(Clock::now() - until_when, 5s);
    EXPECT_TRUE(there(agent.guard)) << "it guards what comes next";
}

TEST(AgentGuard, ALeaseThatIsRenewedKillsNobody) {
    const pid_t worker = start_worker();
    {
        auto guard = std::move(AgentGuard::start().value());
        guard->watch(worker);
        for (int i = 0; i < 40; ++i) {
            guard->lease_until(Clock::now() + 5s);
            std::this_thread::sleep_for(5ms);
        }
        EXPECT_FALSE(killed(worker));
        guard->lease_until(Clock::now() + 50ms);
        EXPECT_TRUE(until([&] { return killed(worker); }));
        // The next attempt has a lease of its own.
        const pid_t next = start_worker();
        guard->lease_until(Clock::now() + 30s);
        guard->watch(next);
        std::this_thread::sleep_for(100ms);
        EXPECT_FALSE(killed(next));
        end(next);
    }
}

TEST(AgentGuard, OutlivesEverySignalThatCanBeOutlived) {
    const pid_t worker = start_worker();
    Agent agent([&](AgentGuard& guard) { guard.watch(worker); });
    // It takes its name when it is ready.
    ASSERT_TRUE(until([&] {
        std::string name;
        std::getline(std::ifstream("/proc/" + std::to_string(agent.guard) + "/comm") >> std::ws, name);
        return name == guard_name;
    }));
    // The two below SIGRTMIN are the C library's own, which lets nobody ignore them.
    for (int signo = 1; signo <= SIGRTMAX; ++signo)
        if (signo != SIGKILL && signo != SIGSTOP && (signo < 32 || signo >= SIGRTMIN)) ::kill(agent.guard, signo);
    std::this_thread::sleep_for(50ms);
    ASSERT_TRUE(there(agent.guard));
    EXPECT_FALSE(killed(worker));
    agent.kill();
    EXPECT_TRUE(until([&] { return killed(worker); }));
}

TEST(AgentGuard, IsInASessionOfItsOwn) {
    auto guard = std::move(AgentGuard::start().value());
    EXPECT_TRUE(until([&] { return ::getsid(guard->pid()) == guard->pid(); })) << "a terminal's Ctrl-C is not for it";
}

TEST(AgentGuard, EndsWithAnAgentThatEndsWellAndKillsNobody) {
    const pid_t worker = start_worker();
    pid_t pid = 0;
    {
        auto guard = std::move(AgentGuard::start().value());
        pid = guard->pid();
        guard->watch(worker);
    }
    EXPECT_FALSE(there(pid));
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(killed(worker));
    end(worker);
}

TEST(AgentGuard, ThatIsStoppedHoldsUpNobody) {
    const auto begin = Clock::now();
    {
        auto guard = std::move(AgentGuard::start().value());
        ::kill(guard->pid(), SIGSTOP);
    }
    EXPECT_LT(Clock::now() - begin, 5s);
}

TEST(AgentGuard, ThatIsDeadFailsNobody) {
    auto guard = std::move(AgentGuard::start().value());
    ::kill(guard->pid(), SIGKILL);
    std::this_thread::sleep_for(20ms);
    for (int i = 0; i < 100; ++i) guard->lease_until(Clock::now() + 5s);
    guard->watch(1'000'000);
    guard->forget();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(AgentGuard, NeedsLittleMemoryOfItsOwn) {
    // What an agent has in memory, its guard shares until one of them writes.
    std::vector<char> much(std::size_t{64} << 20U, 'x');
    Agent agent([](AgentGuard& guard) {
        for (int i = 0; i < 1'000; ++i) guard.lease_until(Clock::now() + 60s);
    });
    std::ifstream rollup("/proc/" + std::to_string(agent.guard) + "/smaps_rollup");
    std::string line;
    long own = 0;
    while (std::getline(rollup, line)) {
        std::istringstream words(line);
        std::string name;
        long kilobytes = 0;
        words >> name >> kilobytes;
        if (name == "Private_Clean:" || name == "Private_Dirty:") own += kilobytes;
    }
    EXPECT_GT(own, 0);
    EXPECT_LT(own, 500);
    EXPECT_EQ(much.back(), 'x');
}
#endif

}  // namespace
}  // namespace cpprun
