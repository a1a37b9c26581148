// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/line_filter.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

TEST(LineFilter, KeepsTheLinesThatHoldOneOfTheTexts) {
    LineFilter filter("[default0]:", {"alpha", "be"});
    std::string out;
    filter.feed("an alpha\ngamma\nbeta al", out);
    filter.feed("pha\nal pha\n", out);
    EXPECT_EQ(out, "[default0]:an alpha\n[default0]:beta alpha\n");
}

TEST(LineFilter, AnEmptyTextIsInEveryLine) {
    LineFilter filter("P:", {""});
    std::string out;
    filter.feed("a\n\nb\r", out);
    EXPECT_EQ(out, "P:a\nP:\nP:b\n");
}

TEST(LineFilter, SeesALineWholeThoughItCameInPieces) {
    LineFilter filter("P:", {"needle"});
    std::string out;
    filter.feed("a nee", out);
    filter.feed("dle\nneed", out);
    filter.feed("\nle\n", out);
    EXPECT_EQ(out, "P:a needle\n");
}

TEST(LineFilter, ALastLineWithoutEndCounts) {
    LineFilter filter("P:", {"last"});
    std::string out;
    filter.feed("the last", out);
    EXPECT_EQ(out, "");
    filter.finish(out);
    EXPECT_EQ(out, "P:the last\n");
    filter.finish(out);
    EXPECT_EQ(out, "P:the last\n");
}

}  // namespace
}  // namespace cpprun
