// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/prefix_template.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

const Environment with_variable{{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "E${rank}:"}};
const PrefixValues values{.role_name = "tr", .local_rank = 1, .rank = 9, .hostname = "vm"};

TEST(PrefixTemplate, TheOptionBeatsTheVariableBeatsTheDefault) {
    EXPECT_EQ(choose_prefix_template("C${rank}:", with_variable), "C${rank}:");
    EXPECT_EQ(choose_prefix_template(std::nullopt, with_variable), "E${rank}:");
    EXPECT_EQ(choose_prefix_template(std::nullopt, {}), "[${role_name}${local_rank}]:");
}

TEST(PrefixTemplate, AnEmptyOneCountsAsNotGiven) {
    EXPECT_EQ(choose_prefix_template("", with_variable), "E${rank}:");
    EXPECT_EQ(choose_prefix_template("", {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", ""}}),
              "[${role_name}${local_rank}]:");
}

TEST(PrefixTemplate, TheDefaultIsRoleAndLocalRank) {
    EXPECT_EQ(line_prefix(choose_prefix_template(std::nullopt, {}), values), "[tr1]:");
}

TEST(PrefixTemplate, NamesAreReplacedAndUnknownOnesStay) {
    EXPECT_EQ(line_prefix("<${role_name}|${rank}|${local_rank}|${hostname}|$$|$rank2|$> ", values),
              "<tr|9|1|vm|$|$rank2|$> ");
}

}  // namespace
}  // namespace cpprun
