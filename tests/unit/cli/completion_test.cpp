// SPDX-License-Identifier: BSD-3-Clause
// The completion scripts, run by the shells that are here.
#include "cli/completion.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <unistd.h>

namespace cpprun {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A directory with the completion script and a driver in it, gone at the end.
class Shell : public testing::Test {
  protected:
    void SetUp() override { ASSERT_NE(mkdtemp(directory_), nullptr); }
    void TearDown() override {
        for (const char* name : {"/script", "/driver", "/data.txt"}) unlink((directory_ + std::string(name)).c_str());
        rmdir(directory_);
    }

    static bool is_here(const std::string& shell) {
        return std::system(("command -v " + shell + " >/dev/null 2>&1").c_str()) == 0;
    }

    /// What `shell` prints when it runs `driver`, which finds the completion script for `name` as ./script.
    std::string output_of(const std::string& shell, const std::string& name, const std::string& driver) {
        std::ofstream(directory_ + std::string("/script")) << completion_script(name, "torchrun");
        std::ofstream(directory_ + std::string("/driver")) << driver;
        std::ofstream(directory_ + std::string("/data.txt")) << "";
        const std::string command =
            "cd " + std::string(directory_) + " && timeout 60 " + shell + " ./driver 2>&1 </dev/null";
        FILE* pipe = popen(command.c_str(), "r");
        std::string text;
        for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
        pclose(pipe);
        return text;
    }

    /// The words that bash offers for a line, whose last word is the one to complete.
    std::string bash_offers(const std::string& words) {
        return output_of("bash --norc", "bash",
                         "source ./script\nCOMP_WORDS=(" + words +
                             ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_cpprun_complete\necho \"${COMPREPLY[@]}\"\n"
                             "complete -p torchrun cpprun\n");
    }

  private:
    char directory_[32] = "/tmp/cpprun-completionXXXXXX";
};

TEST_F(Shell, BashCompletesOptionsAndTheirWords) {
    if (!is_here("bash")) GTEST_SKIP() << "no bash";
    EXPECT_THAT(bash_offers("torchrun --nproc"), HasSubstr("--nproc-per-node\n"));
    EXPECT_THAT(bash_offers("torchrun --st"), HasSubstr("--standalone --start-method --stdin --strict-devices"));
    EXPECT_THAT(bash_offers("torchrun --start-method ''"), HasSubstr("spawn fork forkserver\n"));
    EXPECT_THAT(bash_offers("torchrun --start-method = f"), HasSubstr("fork forkserver\n"));
    EXPECT_THAT(bash_offers("torchrun --numa_binding = ''"), HasSubstr("node socket exclusive core-complex\n"));
    EXPECT_THAT(bash_offers("torchrun --numa_binding ="), HasSubstr("node socket exclusive core-complex\n"));
    EXPECT_THAT(bash_offers("torchrun --role x --te"), HasSubstr("--tee\n"));
    EXPECT_THAT(bash_offers("torchrun ''"), AllOf(HasSubstr("data.txt"), HasSubstr("complete -o filenames -F")));
}

TEST_F(Shell, BashOffersFilesBehindTheScript) {
    if (!is_here("bash")) GTEST_SKIP() << "no bash";
    EXPECT_THAT(bash_offers("torchrun -r 3 w.py da"), HasSubstr("data.txt\n"));
    EXPECT_THAT(bash_offers("torchrun w.py --nproc"), Not(HasSubstr("--nproc-per-node")));
    EXPECT_THAT(bash_offers("torchrun -- w.py --start-method ''"), Not(HasSubstr("forkserver")));
}

// A pseudo-terminal by zsh's own module: the script is loaded with compinit and the Tab key is pressed.
std::string zsh_driver(const std::string& line) {
    return R"sh(zmodload zsh/zpty
zpty shell 'zsh -f -i'
zpty -w shell 'PS1=READY; stty -echo; autoload -Uz compinit && compinit -u -D && source ./script; zstyle "*" insert-tab false; print LOA""DED'
zpty -r -m shell out '*LOADED*' || exit 1
zpty -w -n shell $')sh" +
           line + R"sh(\t'
zpty -w shell $'\C-a print -r -- "GO""T<\C-e>"'
zpty -r -m shell out '*GOT<*>*'
print -r -- "$out"
zpty -d shell
)sh";
}

TEST_F(Shell, ZshCompletesOptionsAndTheirWords) {
    if (!is_here("zsh")) GTEST_SKIP() << "no zsh";
    EXPECT_THAT(output_of("zsh -f", "zsh", zsh_driver("torchrun --max-re")), HasSubstr("GOT<torchrun --max-restarts"));
    EXPECT_THAT(output_of("zsh -f", "zsh", zsh_driver("torchrun --start-method forks")),
                HasSubstr("GOT<torchrun --start-method forkserver"));
}

TEST_F(Shell, ZshFindsNoFaultInTheScript) {
    if (!is_here("zsh")) GTEST_SKIP() << "no zsh";
    EXPECT_EQ(output_of("zsh -f", "zsh",
                        "autoload -Uz compinit && compinit -u -D\nsource ./script\nprint -r -- $_comps[torchrun]\n"),
              "_cpprun\n");
}

TEST_F(Shell, TcshTakesTheScript) {
    if (!is_here("tcsh")) GTEST_SKIP() << "no tcsh";
    const std::string shown = output_of("tcsh -f", "tcsh", "source ./script\ncomplete torchrun\n");
    EXPECT_THAT(shown, AllOf(HasSubstr("nproc-per-node"), HasSubstr("spawn fork forkserver")));
}

TEST(Completion, AProgramNameThatAShellWouldReadIsLeftOut) {
    EXPECT_THAT(completion_script("bash", "a;rm -rf"), Not(HasSubstr("rm -rf")));
    EXPECT_THAT(completion_script("bash", "torchrun"), HasSubstr("_cpprun_complete cpprun torchrun\n"));
}

}  // namespace
}  // namespace cpprun
