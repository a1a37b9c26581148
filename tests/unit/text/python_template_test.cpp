// SPDX-License-Identifier: BSD-3-Clause
#include "core/text/python_template.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

std::string rank1(std::string_view text) {
    return safe_substitute(text, {{"local_rank", "1"}});
}

TEST(PythonTemplate, ReplacesTheLocalRankInBothForms) {
    EXPECT_EQ(rank1("${local_rank}"), "1");
    EXPECT_EQ(rank1("$local_rank"), "1");
    EXPECT_EQ(rank1("w${local_rank}2.py"), "w12.py");
    EXPECT_EQ(rank1("$local_rank\xc3\xa9"), "1\xc3\xa9");
}

TEST(PythonTemplate, TwoDollarsBecomeOne) {
    EXPECT_EQ(rank1("$$"), "$");
    EXPECT_EQ(rank1("$$$$"), "$$");
    EXPECT_EQ(rank1("$$local_rank"), "$local_rank");
    EXPECT_EQ(rank1("$$$local_rank"), "$1");
    EXPECT_EQ(rank1("$$$"), "$$");
}

TEST(PythonTemplate, WhatItDoesNotKnowStays) {
    for (const char* text :
         {"$", "${", "${local_rank", "$LOCAL_RANK", "$local_rank2", "${x}", "a$", "$1", "${}", "$ x"})
        EXPECT_EQ(rank1(text), text);
}

}  // namespace
}  // namespace cpprun
