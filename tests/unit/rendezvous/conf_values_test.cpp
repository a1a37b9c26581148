// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/conf_values.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace cpprun {
namespace {

using namespace std::chrono_literals;

std::chrono::milliseconds seconds(const std::string& text) {
    return conf_seconds({{"timeout", text}}, "timeout", 7s);
}

TEST(ConfValues, SecondsAreReadAsPythonReadsThem) {
    EXPECT_EQ(seconds("1_000"), 1'000s);
    EXPECT_EQ(seconds("+5"), 5s);
    EXPECT_EQ(seconds("0.25"), 250ms);
    EXPECT_EQ(seconds("1_0.5"), 10'500ms);
    EXPECT_EQ(seconds("2e1"), 20s);
}

TEST(ConfValues, WhatIsMissingOrNoNumberIsTheDefault) {
    EXPECT_EQ(conf_seconds({}, "timeout", 7s), 7s);
    EXPECT_EQ(seconds("soon"), 7s);
    EXPECT_EQ(seconds("1__0"), 7s);
    EXPECT_EQ(seconds("nan"), 7s);
    EXPECT_EQ(conf_count({}, "keep_alive_max_attempt", 3), 3);
    EXPECT_EQ(conf_count({{"keep_alive_max_attempt", "x"}}, "keep_alive_max_attempt", 3), 3);
}

TEST(ConfValues, TooMuchAndTooLittleStayInBounds) {
    EXPECT_EQ(seconds("-1"), 0s);
    EXPECT_GT(seconds("1e300"), 24h * 365);
    EXPECT_GT(std::chrono::steady_clock::now() + seconds("1e300"), std::chrono::steady_clock::now());
    EXPECT_EQ(conf_count({{"keep_alive_max_attempt", "0"}}, "keep_alive_max_attempt", 3), 1);
    EXPECT_EQ(conf_count({{"keep_alive_max_attempt", "1_0"}}, "keep_alive_max_attempt", 3), 10);
    EXPECT_EQ(conf_count({{"keep_alive_max_attempt", "99999999999999999999"}}, "keep_alive_max_attempt", 3),
              std::numeric_limits<int>::max());
}

}  // namespace
}  // namespace cpprun
