// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/worker_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cpprun {
namespace {

using testing::ElementsAre;

ProgramConfig python(std::string script, std::vector<std::string> args = {}) {
    ProgramConfig program;
    program.interpreter = "/usr/bin/python3";
    program.script = std::move(script);
    program.args = std::move(args);
    return program;
}

TEST(WorkerCommand, ScriptsRunUnbuffered) {
    EXPECT_THAT(worker_argv(python("w.py", {"a", ""}), 0), ElementsAre("/usr/bin/python3", "-u", "w.py", "a", ""));
}

TEST(WorkerCommand, ModulesAreNamedAfterM) {
    ProgramConfig program = python("pkg.mod", {"a"});
    program.kind = ProgramKind::python_module;
    EXPECT_THAT(worker_argv(program, 0), ElementsAre("/usr/bin/python3", "-u", "-m", "pkg.mod", "a"));
    EXPECT_EQ(report_title(program), "pkg.mod");
}

TEST(WorkerCommand, MacrosAreReplacedEverywhereButInTheNameOfAProgram) {
    EXPECT_THAT(worker_argv(python("w${local_rank}.py", {"$$", "$local_rank"}), 3),
                ElementsAre("/usr/bin/python3", "-u", "w3.py", "$", "3"));
    ProgramConfig program = python("./w${local_rank}.sh", {"${local_rank}"});
    program.kind = ProgramKind::executable;
    EXPECT_THAT(worker_argv(program, 3), ElementsAre("./w${local_rank}.sh", "3"));
}

TEST(WorkerCommand, PassLocalRankStandsBeforeTheScriptsArguments) {
    ProgramConfig program = python("w.py", {"a"});
    program.pass_local_rank = true;
    EXPECT_THAT(worker_argv(program, 2), ElementsAre("/usr/bin/python3", "-u", "w.py", "--local-rank=2", "a"));
}

TEST(WorkerCommand, RunPathKeepsSysArgv) {
    ProgramConfig program = python("w.py", {"a"});
    program.kind = ProgramKind::run_path;
    const auto argv = worker_argv(program, 0);
    ASSERT_EQ(argv.size(), 6U);
    EXPECT_EQ(argv[4], "w.py");
    EXPECT_EQ(report_title(program), "run_script_path");
    EXPECT_EQ(binary_description(program), "of fn: run_script_path (start_method: spawn)");
}

TEST(WorkerCommand, AnotherInterpreterGivesTheTitle) {
    ProgramConfig program = python("w.py");
    EXPECT_EQ(report_title(program), "w.py");
    EXPECT_EQ(binary_description(program), "of binary: /usr/bin/python3");
    EXPECT_EQ(entrypoint_name(program), "python3");
    program.interpreter_is_own = false;
    EXPECT_EQ(report_title(program), "/usr/bin/python3");
}

TEST(WorkerCommand, AnOptionOfPythonIsNoTitle) {
    EXPECT_EQ(report_title(python("-c", {"-x", "print(1)"})), "print(1)");
    EXPECT_EQ(report_title(python("-5")), "-5");
}

}  // namespace
}  // namespace cpprun
