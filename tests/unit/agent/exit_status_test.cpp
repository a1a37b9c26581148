// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/exit_status.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace cpprun {
namespace {

TEST(ExitStatusText, IsReadAsItIsWritten) {
    for (int code = 1; code <= 255; ++code) {
        const auto status = ExitStatus::exited(code);
        EXPECT_EQ(parse_exit_status(exit_status_text(status)), status);
    }
    for (int signo = 1; signo <= 64; ++signo) {
        const auto status = ExitStatus::killed_by(signo);
        EXPECT_EQ(parse_exit_status(exit_status_text(status)), status) << exit_status_text(status);
    }
    EXPECT_EQ(exit_status_text(ExitStatus::exited(3)), "exit:3");
    EXPECT_EQ(exit_status_text(ExitStatus::killed_by(SIGSEGV)), "signal:SEGV");
    EXPECT_EQ(exit_status_text(ExitStatus::killed_by(40)), "signal:40");
}

TEST(ExitStatusText, TakesSignalsInEveryForm) {
    for (const char* text : {"signal:SEGV", "signal:SIGSEGV", "signal:11"})
        EXPECT_EQ(parse_exit_status(text), ExitStatus::killed_by(SIGSEGV)) << text;
}

TEST(ExitStatusText, RefusesAllElse) {
    for (const char* text : {"", "3", "exit", "exit:", "exit:0", "exit:256", "exit:-1", "exit:x", "exit: 3",
                             "signal:", "signal:0", "signal:65", "signal:segv", "signal:BOGUS", "SEGV", "code:3"})
        EXPECT_EQ(parse_exit_status(text), std::nullopt) << text;
}

}  // namespace
}  // namespace cpprun
