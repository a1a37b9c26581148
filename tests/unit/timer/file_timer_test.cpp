// SPDX-License-Identifier: BSD-3-Clause
#include "core/timer/file_timer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cpprun {
namespace {

using testing::HasSubstr;

std::string request(int pid, const std::string& scope, double time, int signal) {
    return "{\"version\": 1, \"pid\": " + std::to_string(pid) + ", \"scope_id\": \"" + scope +
           "\", \"expiration_time\": " + std::to_string(time) + ", \"signal\": " + std::to_string(signal) + "}\n";
}

/// "pid signal scope" of all that is due.
std::vector<std::string> due(FileTimerTable& table, double now) {
    std::vector<std::string> lines;
    for (const ExpiredTimer& timer : table.expired(now))
        lines.push_back(std::to_string(timer.pid) + " " + std::to_string(timer.signal) + " " + timer.scope);
    return lines;
}

using Lines = std::vector<std::string>;

TEST(FileTimer, FiresOnceWhenItsTimeHasCome) {
    FileTimerTable table;
    EXPECT_TRUE(table.feed(request(100, "step", 50, 9)).empty());
    EXPECT_EQ(table.next_expiration(), 50.0);
    EXPECT_EQ(due(table, 49.9), Lines{});
    EXPECT_EQ(due(table, 50), Lines{"100 9 step"});
    EXPECT_EQ(due(table, 51), Lines{});
    EXPECT_EQ(table.next_expiration(), std::nullopt);
}

TEST(FileTimer, AReleasedTimerDoesNotFire) {
    FileTimerTable table;
    table.feed(request(100, "step", 50, 9) + request(100, "save", 60, 15));
    table.feed(request(100, "step", -1, 0));
    EXPECT_EQ(due(table, 100), Lines{"100 15 save"});
    EXPECT_TRUE(table.feed(request(100, "unknown", -1, 0)).empty());
}

TEST(FileTimer, SettingItAgainMovesIt) {
    FileTimerTable table;
    table.feed(request(100, "step", 50, 9) + request(100, "step", 80, 9));
    EXPECT_EQ(due(table, 60), Lines{});
    EXPECT_EQ(due(table, 80), Lines{"100 9 step"});
}

TEST(FileTimer, TheEarliestExpiredSignalOfEachProcessCounts) {
    FileTimerTable table;
    table.feed(request(100, "a", 50, 9) + request(100, "b", 40, 15) + request(100, "c", 30, 0) +
               request(200, "a", 45, 9) + request(300, "a", 90, 9));
    EXPECT_EQ(due(table, 60), (Lines{"100 15 b", "200 9 a"}));
    EXPECT_EQ(table.size(), 1U);
}

TEST(FileTimer, TimersOfADeadProcessAreDropped) {
    FileTimerTable table;
    table.feed(request(99, "x", 50, 9) + request(100, "a", 50, 9) + request(100, "b", 50, 9) +
               request(101, "x", 50, 9));
    table.forget(100);
    EXPECT_EQ(due(table, 60), (Lines{"99 9 x", "101 9 x"}));
}

TEST(FileTimer, ALineMayComeInPieces) {
    FileTimerTable table;
    const std::string lines = request(100, "a", 50, 9) + request(200, "b", 50, 9);
    for (const char byte : lines) table.feed(std::string_view(&byte, 1));
    EXPECT_EQ(due(table, 60), (Lines{"100 9 a", "200 9 b"}));
}

TEST(FileTimer, WhatMakesNoSenseIsRemarkedAndChangesNothing) {
    for (const char* line :
         {"hello",
          "[]",
          "{}",
          "{\"version\": 1}",
          "\xff\xfe",
          "null",
          R"({"version": 2, "pid": 100, "scope_id": "a", "expiration_time": 1.0, "signal": 9})",
          R"({"version": 1, "pid": 0, "scope_id": "a", "expiration_time": 1.0, "signal": 9})",
          R"({"version": 1, "pid": 1, "scope_id": "a", "expiration_time": 1.0, "signal": 9})",
          R"({"version": 1, "pid": -1, "scope_id": "a", "expiration_time": 1.0, "signal": 9})",
          R"({"version": 1, "pid": 4294967297, "scope_id": "a", "expiration_time": 1.0, "signal": 9})",
          R"({"version": 1, "pid": 18446744073709551615, "scope_id": "a", "expiration_time": 1.0, "signal": 9})",
          R"({"version": 1, "pid": 100.5, "scope_id": "a", "expiration_time": 1.0, "signal": 9})",
          R"({"version": 1, "pid": "100", "scope_id": "a", "expiration_time": 1.0, "signal": 9})",
          R"({"version": 1, "pid": 100, "scope_id": 7, "expiration_time": 1.0, "signal": 9})",
          R"({"version": 1, "pid": 100, "scope_id": "a", "expiration_time": "1", "signal": 9})",
          R"({"version": 1, "pid": 100, "scope_id": "a", "expiration_time": NaN, "signal": 9})",
          R"({"version": 1, "pid": 100, "scope_id": "a", "expiration_time": 1.0, "signal": 65})",
          R"({"version": 1, "pid": 100, "scope_id": "a", "expiration_time": 1.0, "signal": -9})",
          R"({"version": 1, "pid": 100, "scope_id": "a", "expiration_time": 1.0})"}) {
        FileTimerTable table;
        const auto remarks = table.feed(std::string(line) + "\n");
        ASSERT_EQ(remarks.size(), 1U) << line;
        EXPECT_THAT(remarks.front(), HasSubstr("timer request ignored"));
        EXPECT_EQ(table.size(), 0U) << line;
    }
}

TEST(FileTimer, AGoodLineAfterABadOneCounts) {
    FileTimerTable table;
    EXPECT_EQ(table.feed("garbage\n\n" + request(100, "a", 50, 9)).size(), 1U);
    EXPECT_EQ(table.size(), 1U);
}

TEST(FileTimer, ALineThatIsTooLongIsSkippedToItsEnd) {
    FileTimerTable table;
    const std::string endless(1000, 'x');
    std::size_t remarks = 0;
    for (int i = 0; i < 100; ++i) remarks += table.feed(endless).size();
    EXPECT_EQ(remarks, 1U);
    remarks += table.feed("\n" + request(100, "a", 50, 9)).size();
    EXPECT_EQ(remarks, 1U);
    EXPECT_EQ(table.size(), 1U);
    EXPECT_EQ(table.feed(request(100, std::string(timer_line_bytes_max, 's'), 50, 9)).size(), 1U);
    EXPECT_EQ(table.size(), 1U);
}

TEST(FileTimer, DeepNestingIsOnlyABadLine) {
    FileTimerTable table;
    EXPECT_EQ(table.feed(std::string(timer_line_bytes_max, '[') + "\n").size(), 1U);
}

TEST(FileTimer, AFloodOfNonsenseIsRemarkedTenTimes) {
    FileTimerTable table;
    std::size_t remarks = 0;
    for (int i = 0; i < 1000; ++i) remarks += table.feed("nonsense\n").size();
    EXPECT_EQ(remarks, 10U);
}

TEST(FileTimer, ThereIsABoundOnTimers) {
    FileTimerTable table;
    for (std::size_t i = 0; i < timers_max; ++i) table.feed(request(100, std::to_string(i), 50, 9));
    EXPECT_EQ(table.size(), timers_max);
    EXPECT_EQ(table.feed(request(101, "one more", 50, 9)).size(), 1U);
    EXPECT_TRUE(table.feed(request(100, "7", 60, 9)).empty());
    EXPECT_EQ(table.size(), timers_max);
}

TEST(FileTimer, RemarksAreFitToBeShown) {
    FileTimerTable table;
    const auto remarks = table.feed("\x1b[31m" + std::string(500, 'x') + "\n");
    ASSERT_EQ(remarks.size(), 1U);
    EXPECT_EQ(remarks.front().find('\x1b'), std::string::npos);
    EXPECT_LT(remarks.front().size(), 300U);
}

}  // namespace
}  // namespace cpprun
