// SPDX-License-Identifier: BSD-3-Clause
// The whole way from words to a launch, a text or an error (contract 1.6; observed cases 21 to 24, 67, 68; user cases
// B01, B04, B05, B12, B24).
#include "unit/cli/fake_machine.hpp"

#include <gmock/gmock.h>

#include <chrono>

namespace cpprun::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using List = std::vector<std::string>;

const char* const missing = "the following arguments are required: training_script, training_script_args";

TEST(CommandLine, B01EverythingBehindTheScriptIsTheScripts) {
    const List words{"--r=16", "-h", "--log", "a", "--nnodes", "9", "", "a b", "--"};
    for (const List& front :
         {List{"--nproc-per-node", "1", "w.py"}, {"-m", "mod"}, {"--", "w.py"}, {"--no-python", "env"}}) {
        List line = front;
        line.insert(line.end(), words.begin(), words.end());
        EXPECT_EQ(FakeMachine().config(line).program.args, words);
    }
}

TEST(CommandLine, B04EverySpellingAndBothValueStylesMeanTheSame) {
    FakeMachine machine;
    machine.set("OMP_NUM_THREADS", "1");
    const std::string wanted = machine.text({"--print-config", "--nproc-per-node=2", "w.py"});
    for (const List& line : {List{"--nproc_per_node=2"},
                             {"--nproc-per-node", "2"},
                             {"--nproc_per_node", "2"},
                             {"--nproc-per_node=2"},
                             {"--nproc", "2"}}) {
        List full{"--print_config"};
        full.insert(full.end(), line.begin(), line.end());
        full.push_back("w.py");
        EXPECT_EQ(machine.text(full), wanted);
    }
}

TEST(CommandLine, B05TheLocalRankArgumentComesOnlyWhenAskedFor) {
    EXPECT_FALSE(FakeMachine().config({"w.py"}).program.pass_local_rank);
    EXPECT_TRUE(FakeMachine().config({"--pass-local-rank", "w.py"}).program.pass_local_rank);
}

TEST(CommandLine, HelpComesWhereItStands) {
    for (const List& line : {List{"-h"},
                             {"--help"},
                             {"--he"},
                             {"--bogus", "-h"},
                             {"-mh"},
                             {"--role=x", "-h", "w.py"},
                             {"-h", "--max-restarts=x"},
                             {"-h", "--standalone=1"}})
        EXPECT_THAT(FakeMachine().text(line), StartsWith("usage: cpprun [options] SCRIPT [ARGS...]\n"));
    EXPECT_THAT(FakeMachine().set("PET_MAX_RESTARTS", "x").text({"-h"}), StartsWith("usage:"));
    EXPECT_THAT(FakeMachine().usage({"--max-restarts=x", "-h"}), HasSubstr("invalid int value: 'x'"));
    EXPECT_THAT(FakeMachine().usage({"--standalone=1", "-h"}), HasSubstr("ignored explicit argument '1'"));
    EXPECT_EQ(FakeMachine().config({"w.py", "-h"}).program.args, List{"-h"});
}

TEST(CommandLine, B10HelpNamesEveryOptionAndVariable) {
    FakeMachine machine;
    machine.host.program_name = "torchrun";
    const std::string help = machine.text({"--help"});
    EXPECT_THAT(help, StartsWith("usage: torchrun "));
    EXPECT_EQ(help.find("\n\n\n"), std::string::npos);
    for (const OptionSpec& spec : flag_table()) {
        EXPECT_THAT(help, HasSubstr(std::string(spec.dashed)));
        EXPECT_THAT(help, HasSubstr(std::string(spec.variable)));
    }
    std::size_t begin = 0;
    for (std::size_t end; (end = help.find('\n', begin)) != std::string::npos; begin = end + 1)
        EXPECT_LE(end - begin, 100U) << help.substr(begin, end - begin);
}

TEST(CommandLine, VersionIsPrinted) {
    EXPECT_THAT(FakeMachine().text({"--version"}), AllOf(StartsWith("cpprun "), HasSubstr(".")));
    EXPECT_EQ(FakeMachine().config({"w.py", "--version"}).program.args, List{"--version"});
}

TEST(CommandLine, AMissingScriptIsSaidInArgparsesWords) {
    for (const List& line : {List{}, {"--role=x"}, {"--bogus"}, {"-r", "w.py"}, {"--"}})
        EXPECT_EQ(FakeMachine().usage(line), missing);
}

TEST(CommandLine, B24AMissingScriptNamesTheVariablesThatWereReadSoFar) {
    FakeMachine machine;
    machine.set("PET_NNODES", "2").set("PET_NODE_RANK", "0").set("PET_STANDALONE", "1").set("PET_UNKNOWN", "x");
    machine.set("PET_ROLE", "a\nb");
    EXPECT_EQ(machine.usage({"--nnodes=3"}),
              std::string(missing) +
                  " (options taken from variables: PET_STANDALONE='1' PET_ROLE='a\\nb' PET_NODE_RANK='0')");
}

TEST(CommandLine, B24SettingsFromVariablesAloneStartAStaticJob) {
    FakeMachine machine;
    machine.set("PET_NNODES", "2").set("PET_NODE_RANK", "1").set("PET_NPROC_PER_NODE", "1");
    machine.set("PET_MASTER_ADDR", "127.0.0.1").set("PET_MASTER_PORT", "1234");
    const RendezvousConfig config = machine.config({"w.py"}).rendezvous;
    EXPECT_EQ(config.kind, RendezvousKind::static_ranks);
    EXPECT_EQ(config.endpoint, "127.0.0.1:1234");
    EXPECT_EQ(config.node_rank, 1);
}

TEST(CommandLine, UnknownOptionsAreNamedTogether) {
    EXPECT_EQ(FakeMachine().usage({"--bogus=1", "-q", "w.py"}), "unrecognized arguments: --bogus=1 -q");
    EXPECT_EQ(FakeMachine().usage({"--a\nb", "w.py"}), "unrecognized arguments: --a?b");
    EXPECT_EQ(FakeMachine().usage({"--use-env", "w.py"}), "unrecognized arguments: --use-env");
}

TEST(CommandLine, EveryMessageIsOneLineWhateverTheWordsHold) {
    EXPECT_THAT(FakeMachine().usage({"--r=\n\x1b[2J", "w.py"}), StartsWith("ambiguous option: --r=??[2J could match"));
    EXPECT_THAT(FakeMachine().usage({"--nproc-per-node=a\nb", "w.py"}), HasSubstr("value: a?b"));
    EXPECT_THAT(texts(FakeMachine().launch({"--signals-to-handle=SIG\nX", "w.py"}).notices),
                ElementsAre("Failed to register signal handler for SIG?X"));
}

TEST(CommandLine, B12ANestedLaunchSaysWhichInheritedVariablesDecide) {
    FakeMachine machine;
    machine.set("TORCHELASTIC_RUN_ID", "outer");
    EXPECT_THAT(machine.launch({"w.py"}).notices, IsEmpty());
    machine.set("PET_ROLE", "x");
    EXPECT_THAT(texts(machine.launch({"w.py"}).notices),
                ElementsAre(AllOf(HasSubstr("'outer'"), HasSubstr("PET_ROLE='x'"))));
    EXPECT_THAT(machine.launch({"--role=y", "w.py"}).notices, IsEmpty());
}

TEST(CommandLine, PrintConfigShowsWhatWouldBeLaunched) {
    const auto json = nlohmann::json::parse(
        FakeMachine().text({"--print-config", "--master-port=5", "-r0:3", "--settle-time=50ms", "w.py", "\xff"}));
    EXPECT_EQ(json["rendezvous"]["endpoint"], "127.0.0.1:5");
    EXPECT_EQ(json["rendezvous"]["backend"], "static");
    EXPECT_EQ(json["program"]["interpreter"], "/usr/bin/python3");
    EXPECT_EQ(json["program"]["args"][0], "\xef\xbf\xbd");
    EXPECT_EQ(json["logs"]["redirects"]["0"], 3);
    EXPECT_EQ(json["stop"]["settle_time"], 0.05);
    EXPECT_EQ(json["rendezvous"]["rank_order"], "natural");
    EXPECT_EQ(json["rendezvous"]["exit_barrier_timeout"], 300);
    EXPECT_TRUE(json["numa_binding"].is_null());
    EXPECT_TRUE(json["notices"].empty());
    EXPECT_THAT(FakeMachine().usage({"--print-config", "nosuch.py"}), HasSubstr("can't open file"));
}

TEST(CommandLine, PrintCompletionNeedsNoScript) {
    for (const char* shell : {"bash", "zsh", "tcsh"})
        EXPECT_THAT(FakeMachine().text({"--print-completion", shell}), HasSubstr("nproc-per-node"));
    EXPECT_THAT(FakeMachine().text({"--print-completion", "zsh", "w.py"}), StartsWith("#compdef cpprun\n"));
}

}  // namespace
}  // namespace cpprun::test
