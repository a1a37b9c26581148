// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/cpu_list.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

std::vector<int> parsed(std::string_view text) {
    return parse_cpulist(text).value();
}

TEST(CpuList, ReadsWhatTheKernelWrites) {
    EXPECT_EQ(parsed("0-3,8-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 9, 10, 11}));
    EXPECT_EQ(parsed("5"), std::vector<int>{5});
    EXPECT_EQ(parsed("\n"), std::vector<int>{});
    EXPECT_EQ(parsed("3,1-2,2"), (std::vector<int>{1, 2, 3}));
}

TEST(CpuList, RefusesEverythingElse) {
    for (const char* text : {"a", "1-", "-1", "3-1", "1,,2", "1,", ",1", "1 2", "0-4000000000", "99999999999999999999",
                             "65536", "0x1", "1-2-3"})
        EXPECT_FALSE(parse_cpulist(text)) << text;
}

TEST(CpuList, ManyOverlappingRangesDoNotFillTheMemory) {
    std::string text = "0-65535";
    for (int i = 0; i < 5000; ++i) text += ",0-65535";
    EXPECT_FALSE(parse_cpulist(text));
}

TEST(CpuList, WritesRangesAndReadsThemBack) {
    for (const char* text : {"", "0", "0-1", "0-3,8-11", "1,3,5", "7,9-12"})
        EXPECT_EQ(format_cpulist(parsed(text)), text);
}

}  // namespace
}  // namespace cpprun
