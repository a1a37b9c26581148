// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/std_spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cpprun {
namespace {

TEST(StdSpec, OneDigitSpeaksForAllRanks) {
    EXPECT_EQ(parse_std_spec("--tee", "0").value().of(7), Std::none);
    EXPECT_EQ(parse_std_spec("--tee", "1").value().of(7), Std::out);
    EXPECT_EQ(parse_std_spec("--tee", "2").value().of(7), Std::err);
    EXPECT_EQ(parse_std_spec("--tee", "3").value().of(0), Std::all);
}

TEST(StdSpec, RanksThatAMapDoesNotNameGetNothing) {
    const StdSpec spec = parse_std_spec("--redirects", "0:1,1:2,2:3,5:3").value();
    EXPECT_EQ(spec.of(0), Std::out);
    EXPECT_EQ(spec.of(1), Std::err);
    EXPECT_EQ(spec.of(2), Std::all);
    EXPECT_EQ(spec.of(3), Std::none);
    EXPECT_EQ(spec.of(5), Std::all);
}

TEST(StdSpec, OfTwoEntriesForOneRankTheLastCounts) {
    EXPECT_EQ(parse_std_spec("--redirects", "0:1,0:2").value().of(0), Std::err);
}

TEST(StdSpec, RanksAboveNineCanBeNamed) {
    const StdSpec spec = parse_std_spec("--redirects", "10:1,127:2").value();
    EXPECT_EQ(spec.of(10), Std::out);
    EXPECT_EQ(spec.of(127), Std::err);
    EXPECT_EQ(spec.of(1), Std::none);
}

class RefusedStdSpec : public testing::TestWithParam<const char*> {};

TEST_P(RefusedStdSpec, IsAUsageErrorInTorchrunsWords) {
    const auto spec = parse_std_spec("--redirects", GetParam());
    ASSERT_FALSE(spec.has_value());
    EXPECT_EQ(spec.error().kind, ErrorKind::usage);
    EXPECT_EQ(spec.error().message, std::string("--redirects: ") + GetParam() +
                                        R"( does not match: <^[0123]$> or <^(\d:[0123],)*(\d:[0123])$>)");
}

INSTANTIATE_TEST_SUITE_P(Forms, RefusedStdSpec,
                         testing::Values("4", "11", "", " 1", "0:1,", "1,0:1", "0:4", "0:1, 1:2", "01:1", ":1",
                                         "0:", "-1:1", "+1:1", "99999999999:1", "0:1:1", ",", "0:11"));

}  // namespace
}  // namespace cpprun
