// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/os/signal_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace cpprun {
namespace {

/// Runs `body` in a child process, whose exit code tells how it went; signals are a matter of whole processes.
int in_child(const std::function<int()>& body) {
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::alarm(20);
        ::_exit(body());
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status;
}

TEST(SignalSource, SignalsThatCameBeforeItWasBuiltAreNotLost) {
    const int status = in_child([] {
        const SignalInheritance held = hold_signals();
        ::kill(::getpid(), SIGTERM);
        boost::asio::io_context io;
        int got = 0;
        const SignalSource source(io, held, [&](const ReceivedSignal& signal) {
            const std::string me = "pid " + std::to_string(::getpid());
            got = signal.signo == SIGTERM && signal.sender.starts_with(me) ? 7 : 8;
            io.stop();
        });
        io.run();
        return got;
    });
    EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(SignalSource, AnIgnoredHangupStaysIgnoredAndAnIgnoredInterruptIsHeard) {
    const int status = in_child([] {
        ::signal(SIGHUP, SIG_IGN);
        ::signal(SIGINT, SIG_IGN);
        const SignalInheritance held = hold_signals();
        if (!held.hangup_ignored) return 1;
        boost::asio::io_context io;
        int got = 0;
        const SignalSource source(io, held, [&](const ReceivedSignal& signal) {
            got = signal.signo;
            io.stop();
        });
        ::kill(::getpid(), SIGHUP);
        ::kill(::getpid(), SIGINT);
        io.run();
        return got;
    });
    EXPECT_EQ(WEXITSTATUS(status), SIGINT);
}

TEST(SignalSource, TheProcessCanStillDieOfASignal) {
    const int status = in_child([]() -> int {
        hold_signals();
        die_by_signal(SIGUSR1);
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGUSR1);
}

TEST(SignalSource, MoreSignalsCanBeHeldAndOnesThatCameIgnoredAreHeardThenButForAHangup) {
    const int status = in_child([] {
        for (const int signo : {SIGHUP, SIGUSR1}) ::signal(signo, SIG_IGN);
        SignalInheritance held = hold_signals();
        hold_also(held, {SIGHUP, SIGUSR1, SIGXCPU});
        boost::asio::io_context io;
        std::vector<int> got;
        const SignalSource source(io, held, [&](const ReceivedSignal& signal) {
            got.push_back(signal.signo);
            if (got.size() == 2) io.stop();
        });
        for (const int signo : {SIGHUP, SIGUSR1, SIGXCPU}) ::kill(::getpid(), signo);
        io.run();
        return got == std::vector{SIGUSR1, SIGXCPU} ? 7 : 8;
    });
    EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(SignalSource, ATerminalThatStopsBackgroundProcessesDoesNotStopThisOne) {
    const int status = in_child([] {
        hold_signals();
        for (const int signo : {SIGTTIN, SIGTTOU, SIGTSTP}) ::kill(::getpid(), signo);
        return 7;
    });
    EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace cpprun
