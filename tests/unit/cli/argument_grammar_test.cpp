// SPDX-License-Identifier: BSD-3-Clause
// Contract 1.6, and rows 6 to 27 of the observed cases of the command line.
#include "cli/argument_grammar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cpprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using List = std::vector<std::string>;

Words split(const List& arguments) {
    auto words = split_words(arguments);
    if (words) return std::move(words).value();
    ADD_FAILURE() << words.error().message;
    return {};
}

std::string ambiguity(const List& arguments) {
    auto words = split_words(arguments);
    return words ? "" : words.error().message;
}

std::string problem(const List& arguments) {
    const Words words = split(arguments);
    return words.problem ? words.problem->message : "";
}

/// The options as "--name=value", flags as "--name".
List uses(const List& arguments) {
    List list;
    for (const OptionUse& use : split(arguments).uses)
        list.push_back(std::string(use.option->dashed) + (use.option->kind == OptionKind::flag ? "" : "=" + use.value));
    return list;
}

TEST(Grammar, AValueStandsBehindASignOrInTheNextWord) {
    EXPECT_THAT(uses({"--role=a", "--role", "b", "--role=", "--role", ""}),
                ElementsAre("--role=a", "--role=b", "--role=", "--role="));
    EXPECT_THAT(uses({"--role=a=b", "--role==x"}), ElementsAre("--role=a=b", "--role==x"));
    EXPECT_THAT(uses({"-r3", "-r", "3", "-r=3", "-t=3"}),
                ElementsAre("--redirects=3", "--redirects=3", "--redirects=3", "--tee=3"));
}

TEST(Grammar, BothSpellingsOfEveryLongOptionWorkAndSoDoMixedOnes) {
    for (const OptionSpec& spec : flag_table()) {
        const std::string tail = spec.kind == OptionKind::flag ? "" : "=v";
        const std::string wanted = std::string(spec.dashed) + tail;
        EXPECT_THAT(uses({std::string(spec.dashed) + tail}), ElementsAre(wanted));
        if (spec.underscored.empty()) continue;
        EXPECT_THAT(uses({std::string(spec.underscored) + tail}), ElementsAre(wanted));
        if (!tail.empty()) EXPECT_THAT(uses({std::string(spec.underscored), "v"}), ElementsAre(wanted));
    }
    EXPECT_THAT(uses({"--nproc-per_node=2", "--nproc_per-node", "3"}),
                ElementsAre("--nproc-per-node=2", "--nproc-per-node=3"));
}

TEST(Grammar, FlagsAreBundledBeforeAtMostOneValue) {
    EXPECT_THAT(uses({"-mr3"}), ElementsAre("--module", "--redirects=3"));
    EXPECT_THAT(uses({"-mt", "3"}), ElementsAre("--module", "--tee=3"));
    EXPECT_THAT(uses({"-tr3"}), ElementsAre("--tee=r3"));
    EXPECT_THAT(uses({"-mh"}), ElementsAre("--module", "--help"));
    EXPECT_THAT(uses({"-mm", "s"}), ElementsAre("--module", "--module"));
    EXPECT_EQ(split({"-r", "w.py"}).script, std::nullopt);
    EXPECT_EQ(problem({"-mx", "s"}), "argument -m/--module: ignored explicit argument 'x'");
    EXPECT_EQ(problem({"-mt"}), "argument -t/--tee: expected one argument");
}

TEST(Grammar, AValueThatLooksLikeAnOptionNeedsTheSign) {
    for (const List& line : {List{"--role", "-x", "w"}, {"--role", "--", "w"}, {"--role"}, {"--role", "--role=x"}})
        EXPECT_EQ(problem(line), "argument --role: expected one argument");
    EXPECT_EQ(problem({"--max-restarts"}), "argument --max-restarts/--max_restarts: expected one argument");
    EXPECT_EQ(problem({"-r"}), "argument -r/--redirects: expected one argument");
    EXPECT_THAT(uses({"--role", "-1", "--role", "-1.5", "--role", "-.5", "--role", "-x y", "--role", "-", "--role=-x"}),
                ElementsAre("--role=-1", "--role=-1.5", "--role=-.5", "--role=-x y", "--role=-", "--role=-x"));
}

TEST(Grammar, AFlagTakesNoValue) {
    EXPECT_EQ(problem({"--standalone=1", "w"}), "argument --standalone: ignored explicit argument '1'");
    EXPECT_EQ(problem({"--standalone=", "w"}), "argument --standalone: ignored explicit argument ''");
    EXPECT_THAT(uses({"--standalone", "--standalone"}), ElementsAre("--standalone", "--standalone"));
}

TEST(Grammar, AnUnambiguousBeginningIsTheOption) {
    const std::vector<std::pair<std::string, std::string>> table{
        {"--redirect=3", "--redirects=3"},
        {"--red=3", "--redirects=3"},
        {"--re=1", "--redirects=1"},
        {"--te=1", "--tee=1"},
        {"--mod", "--module"},
        {"--ro=x", "--role=x"},
        {"--nn=2", "--nnodes=2"},
        {"--stand", "--standalone"},
        {"--nproc-=2", "--nproc-per-node=2"},
        {"--no-py", "--no-python"},
        {"--no-", "--no-python"},
        {"--rdzv-b=c10d", "--rdzv-backend=c10d"},
        {"--max-=1", "--max-restarts=1"},
        {"--he", "--help"},
        {"--nproc_p=2", "--nproc-per-node=2"},
    };
    for (const auto& [typed, meant] : table) EXPECT_THAT(uses({typed}), ElementsAre(meant)) << typed;
}

TEST(Grammar, ABeginningOfTheTwoSpellingsOfOneOptionIsThatOption) {
    const std::vector<std::pair<std::string, std::string>> table{
        {"--nproc=8", "--nproc-per-node=8"},       {"--max=1", "--max-restarts=1"},
        {"--sh=3", "--shutdown-timeout=3"},        {"--vi", "--virtual-local-rank"},
        {"--ev=null", "--event-log-handler=null"}, {"--print=bash", "--print-completion=bash"},
    };
    for (const auto& [typed, meant] : table) EXPECT_THAT(uses({typed}), ElementsAre(meant)) << typed;
    EXPECT_THAT(uses({"--nproc", "8", "w.py"}), ElementsAre("--nproc-per-node=8"));
}

TEST(Grammar, AnAmbiguousBeginningNamesTheCandidatesInOrder) {
    EXPECT_EQ(ambiguity({"--log-", "DIR", "w.py"}),
              "ambiguous option: --log- could match --log-dir, --log-line-prefix-template");
    EXPECT_EQ(ambiguity({"--master=x"}),
              "ambiguous option: --master=x could match --master-addr, --master_addr, --master-port, --master_port");
    EXPECT_THAT(ambiguity({"--r", "3", "w"}),
                HasSubstr("--r could match --rdzv-backend, --rdzv_backend, --rdzv-endpoint"));
    EXPECT_THAT(ambiguity({"--n", "w"}), HasSubstr("--nnodes, --nproc-per-node, --nproc_per_node, --no-python"));
}

// argparse looks at all words before it acts on any.
TEST(Grammar, AnAmbiguousBeginningComesBeforeEveryOtherProblem) {
    for (const List& line : {List{"-h", "--r"}, {"--standalone=1", "--r"}, {"--role", "--r"}, {"--bogus", "--r"}})
        EXPECT_THAT(ambiguity(line), HasSubstr("ambiguous option: --r could match")) << line[0];
}

TEST(Grammar, OurOwnOptionsAreKnownByTheirFullNamesOnly) {
    EXPECT_THAT(uses({"--pass-local-rank", "--pass_local_rank"}),
                ElementsAre("--pass-local-rank", "--pass-local-rank"));
    EXPECT_THAT(uses({"--exit-code=worker", "--exit_code", "torchrun"}),
                ElementsAre("--exit-code=worker", "--exit-code=torchrun"));
    for (const char* word : {"--pass", "--exit", "--versio", "--strict", "--cpu", "--store-l"})
        EXPECT_THAT(split({word}).unrecognized, ElementsAre(word));
    EXPECT_EQ(ambiguity({"--st"}), "ambiguous option: --st could match --standalone, --start-method, --start_method");
}

struct DashCase {
    List line;
    std::string script;
    List args;
};

TEST(Grammar, DropsTheDashesThatTorchrunDrops) {
    const std::vector<DashCase> table{
        {{"--", "s.py", "--", "x"}, "s.py", {"--", "x"}},
        {{"--", "s.py", "--", "--", "x"}, "s.py", {"--", "--", "x"}},
        {{"--", "s.py", "a", "--", "b"}, "s.py", {"a", "--", "b"}},
        {{"s.py", "--", "x"}, "s.py", {"x"}},
        {{"s.py", "--", "--", "x"}, "s.py", {"--", "x"}},
        {{"s.py", "--"}, "s.py", {}},
        {{"s.py", "a", "--", "b"}, "s.py", {"a", "--", "b"}},
        {{"s.py", "a", "--", "--", "b"}, "s.py", {"a", "--", "--", "b"}},
        {{"--", "--", "s.py", "a"}, "--", {"s.py", "a"}},
        {{"--", "--"}, "--", {}},
        {{"--", "-odd", "a"}, "-odd", {"a"}},
        {{"--role=x", "--", "s.py", "--role=y"}, "s.py", {"--role=y"}},
    };
    for (const DashCase& row : table) {
        const Words words = split(row.line);
        EXPECT_EQ(words.script, row.script);
        EXPECT_EQ(words.args, row.args);
    }
    EXPECT_EQ(split({"--"}).script, std::nullopt);
    EXPECT_EQ(split({}).script, std::nullopt);
}

TEST(Grammar, TheScriptMayLookLikeANumberOrHaveABlank) {
    for (const char* script : {"-5", "-1.5", "-a b", "123", "-", "@args", "", "--foo bar", "--ro le=x"}) {
        const Words words = split({script, "--role=x"});
        EXPECT_EQ(words.script, script);
        EXPECT_THAT(words.args, ElementsAre("--role=x"));
        EXPECT_THAT(words.uses, IsEmpty());
    }
}

TEST(Grammar, FromTheScriptOnNothingIsAnOption) {
    const List rest{"--nproc-per-node", "2", "-h", "--version", "--r=16", "--log", "--nnodes", "", "a\nb", "\xff\xfe"};
    List line{"--nproc-per-node", "1", "w.py"};
    line.insert(line.end(), rest.begin(), rest.end());
    EXPECT_EQ(split(line).args, rest);
    EXPECT_THAT(uses(line), ElementsAre("--nproc-per-node=1"));
}

TEST(Grammar, ANameWithoutLettersFitsEveryOption) {
    EXPECT_THAT(ambiguity({"--=", "w.py"}), HasSubstr("ambiguous option: --= could match --help, --nnodes, "));
}

TEST(Grammar, TheWordBehindAnUnknownOptionIsTheScript) {
    const Words words = split({"--bogus=1", "-q", "-5x", "X", "w.py"});
    EXPECT_THAT(words.unrecognized, ElementsAre("--bogus=1", "-q", "-5x"));
    EXPECT_EQ(words.script, "X");
    EXPECT_THAT(words.args, ElementsAre("w.py"));
}

TEST(Grammar, OptionsBeforeAProblemAreKeptAndThoseBehindItAreNot) {
    const Words words = split({"--role=a", "--standalone=1", "--role=b", "w.py"});
    ASSERT_EQ(words.uses.size(), 1U);
    EXPECT_EQ(words.uses[0].value, "a");
    EXPECT_TRUE(words.problem);
}

}  // namespace
}  // namespace cpprun
