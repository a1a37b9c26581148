// SPDX-License-Identifier: BSD-3-Clause
#include "cli/flag_table.hpp"

#include "unit/cli/cli_reference.hpp"
#include "unit/cli/man_page.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace cpprun {
namespace {

std::string upper_name(const OptionSpec& spec) {
    std::string name(spec.dashed.substr(2));
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return name;
}

TEST(FlagTable, NamesEveryOptionOnce) {
    std::set<std::string> seen;
    for (const OptionSpec& spec : flag_table()) {
        EXPECT_TRUE(seen.insert(std::string(spec.dashed)).second) << spec.dashed;
        if (!spec.underscored.empty()) EXPECT_TRUE(seen.insert(std::string(spec.underscored)).second) << spec.dashed;
        if (spec.letter != 0) EXPECT_TRUE(seen.insert(std::string("-") + spec.letter).second) << spec.dashed;
        if (!spec.variable.empty()) EXPECT_TRUE(seen.insert(std::string(spec.variable)).second) << spec.dashed;
    }
}

TEST(FlagTable, TheUnderscoredSpellingFollowsFromTheDashedOne) {
    for (const OptionSpec& spec : flag_table()) {
        std::string expected = "--" + std::string(spec.dashed.substr(2));
        std::replace(expected.begin() + 2, expected.end(), '-', '_');
        EXPECT_EQ(spec.underscored, expected == spec.dashed ? "" : expected) << spec.dashed;
    }
}

TEST(FlagTable, EveryOptionWithAValueSaysWhatTheValueIs) {
    for (const OptionSpec& spec : flag_table()) {
        const bool flag = spec.kind == OptionKind::flag;
        EXPECT_EQ(spec.metavar.empty(), flag) << spec.dashed;
        EXPECT_EQ(spec.accepted.empty(), flag || spec.kind == OptionKind::choice) << spec.dashed;
        EXPECT_EQ(spec.choices.empty(), spec.kind != OptionKind::choice) << spec.dashed;
        EXPECT_FALSE(spec.help.empty()) << spec.dashed;
        EXPECT_FALSE(spec.group.empty()) << spec.dashed;
    }
}

// Contract 1.1: the options for which torchrun reads no variable.
TEST(FlagTable, VariablesFollowFromTheNames) {
    const std::set<OptionId> without{OptionId::help,    OptionId::logs_specs,       OptionId::numa_binding,
                                     OptionId::version, OptionId::print_completion, OptionId::print_config};
    for (const OptionSpec& spec : flag_table()) {
        const std::string expected = (spec.extension ? "CPPRUN_" : "PET_") + upper_name(spec);
        EXPECT_EQ(spec.variable, without.contains(spec.id) ? "" : expected) << spec.dashed;
    }
}

TEST(FlagTable, OurOwnOptionsStandBehindTorchruns) {
    EXPECT_TRUE(std::is_sorted(flag_table().begin(), flag_table().end(),
                               [](const OptionSpec& a, const OptionSpec& b) { return !a.extension && b.extension; }));
    EXPECT_FALSE(option(OptionId::print_completion).extension);
    EXPECT_TRUE(option(OptionId::pass_local_rank).extension);
}

TEST(FlagTable, NoOptionOfOursIsTheBeginningOfOneOfTorchruns) {
    for (const OptionSpec& ours : flag_table())
        for (const OptionSpec& theirs : flag_table())
            if (ours.extension && !theirs.extension)
                EXPECT_FALSE(theirs.dashed.starts_with(ours.dashed)) << ours.dashed;
}

std::string page_in_docs(const std::string& name) {
    std::ifstream file(CPPRUN_SOURCE_DIR "/docs/" + name);
    std::stringstream page;
    page << file.rdbuf();
    return page.str();
}

// Run the target cpprun_cli_reference to write the pages anew after a change of the table.
TEST(FlagTable, DocsCliMdIsMadeFromIt) {
    EXPECT_EQ(page_in_docs("cli.md"), cli_reference_page());
}

TEST(FlagTable, TheManualPageIsMadeFromItToo) {
    EXPECT_EQ(page_in_docs("cpprun.1"), man_page());
}

}  // namespace
}  // namespace cpprun
