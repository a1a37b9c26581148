// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/signal_names.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace cpprun {
namespace {

TEST(SignalNames, AreThoseOfPython) {
    EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
    EXPECT_EQ(signal_name(SIGABRT), "SIGABRT");
    EXPECT_EQ(signal_name(34), "SIGRTMIN");
    EXPECT_EQ(signal_name(64), "SIGRTMAX");
    EXPECT_EQ(signal_name(40), "<N/A>");
    EXPECT_EQ(signal_name(0), "<N/A>");
}

TEST(SignalNames, EveryNameLeadsBackToItsNumber) {
    for (int signo = 1; signo <= 64; ++signo) {
        const std::string name = signal_name(signo);
        if (name == "<N/A>") continue;
        EXPECT_EQ(signal_number(name), signo) << name;
    }
}

TEST(SignalNames, OtherSpellingsAreUnknown) {
    for (const char* text : {"sigterm", "TERM", "15", "", "SIGBOGUS", "SIG_IGN"})
        EXPECT_FALSE(signal_number(text)) << text;
}

TEST(SignalNames, OurOwnOptionsTakeThemInEveryForm) {
    for (const char* text : {"SIGUSR1", "USR1", "10"}) EXPECT_EQ(any_signal(text), 10) << text;
    EXPECT_EQ(any_signal("RTMIN"), 34);
    EXPECT_EQ(any_signal("40"), 40);
    for (const char* text : {"", "SIG", "usr1", "0", "65", "-1", "1 0", "BOGUS"})
        EXPECT_EQ(any_signal(text), std::nullopt) << text;
}

}  // namespace
}  // namespace cpprun
