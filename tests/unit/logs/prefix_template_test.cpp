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

TEST(LogPrefix, PresetsHaveHostRankAndTime) {
    const LineMoment moment{"2026-12-31", "23:59:59.999"};
    const auto shown = [&](const char* preset) {
        return LinePrefix::made(prefix_template_of(preset).value(), values, Std::err, 2).text(moment, true);
    };
    EXPECT_EQ(shown("none"), "");
    EXPECT_EQ(shown("rank"), "[9] ");
    EXPECT_EQ(shown("host"), "[vm 9] ");
    EXPECT_EQ(shown("time"), "23:59:59.999 [9] ");
    EXPECT_EQ(shown("full"), "2026-12-31 23:59:59.999 [vm rank 9 local 1 stderr] ");
    EXPECT_EQ(shown("$time|${time}|${attempt}|$$time|$other "), "23:59:59.999|23:59:59.999|2|$time|$other ");
}

TEST(LogPrefix, AMisspeltPresetIsNone) {
    EXPECT_FALSE(prefix_template_of("ranks"));
    EXPECT_FALSE(prefix_template_of(""));
}

TEST(LogPrefix, OnlyOneWithATimeIsMadeAnewForEachMoment) {
    EXPECT_FALSE(LinePrefix::made("${rank}", values, Std::out, 0).has_moment());
    EXPECT_TRUE(LinePrefix::made("${date}", values, Std::out, 0).has_moment());
    EXPECT_FALSE(LinePrefix("${time}").has_moment());
    EXPECT_EQ(LinePrefix("${time}").text({"d", "t"}, true), "${time}");
}

TEST(LogPrefix, EachRankHasItsColourWhereColoursAreShown) {
    LinePrefix prefix("[0]:");
    EXPECT_EQ(prefix.text({}, true), "[0]:");
    prefix.belongs_to(0);
    EXPECT_EQ(prefix.text({}, true), "\x1b[36m[0]:\x1b[0m");
    EXPECT_EQ(prefix.text({}, false), "[0]:");
    LinePrefix other("[0]:");
    other.belongs_to(1);
    EXPECT_NE(prefix.text({}, true), other.text({}, true));
    LinePrefix empty("");
    empty.belongs_to(3);
    EXPECT_EQ(empty.text({}, true), "");
}

}  // namespace
}  // namespace cpprun
