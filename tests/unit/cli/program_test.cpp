// SPDX-License-Identifier: BSD-3-Clause
// SCRIPT and its interpreter (contract 1.7; observed cases 4, 5, 29 to 34; user cases B06, B08, B19).
#include "unit/cli/fake_machine.hpp"

#include <gmock/gmock.h>

namespace cpprun::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

FileStatus native_file() {
    FileStatus status = program_file();
    status.native_program = true;
    return status;
}

TEST(Program, ThereAreFourWaysToRunIt) {
    FakeMachine machine;
    const auto kind = [&machine](std::vector<std::string> line) { return machine.config(line).program.kind; };
    EXPECT_EQ(kind({"w.py"}), ProgramKind::python_script);
    EXPECT_EQ(kind({"-m", "w"}), ProgramKind::python_module);
    EXPECT_EQ(kind({"--no-python", "env"}), ProgramKind::executable);
    EXPECT_EQ(kind({"--run-path", "w.py"}), ProgramKind::run_path);
    EXPECT_EQ(kind({"--run-path", "--no-python", "-m", "w.py"}), ProgramKind::run_path);
    EXPECT_EQ(machine.usage({"--no-python", "-m", "w"}),
              "Don't use both the '--no-python' flag and the '--module' flag at the same time.");
    EXPECT_EQ(FakeMachine().set("PET_MODULE", "0").config({"--no-python", "env"}).program.kind,
              ProgramKind::executable);
}

TEST(Program, B06AScriptThatIsNotThereIsFoundBeforeTheStart) {
    EXPECT_EQ(FakeMachine().usage({"--standalone", "false", "train.py"}),
              "can't open file 'false' in '/home/user': no such file or directory");
    EXPECT_EQ(FakeMachine().usage({"/nonexistent/foo.py"}),
              "can't open file '/nonexistent/foo.py': no such file or directory");
    EXPECT_THAT(FakeMachine().usage({"--run-path", "nosuch.py"}), HasSubstr("can't open file 'nosuch.py'"));
}

TEST(Program, B06AScriptThatCannotBeReadIsFoundBeforeTheStart) {
    FakeMachine machine;
    machine.disk.put("secret.py", {.exists = true, .regular = true});
    EXPECT_EQ(machine.usage({"secret.py"}), "can't open file 'secret.py' in '/home/user': permission denied");
}

TEST(Program, AFolderIsAScriptWhenItHasAMain) {
    FakeMachine machine;
    machine.disk.put("app", folder());
    EXPECT_THAT(machine.usage({"app"}), HasSubstr("can't find '__main__' module in the directory 'app'"));
    FileStatus with_main = folder();
    with_main.contains_main_py = true;
    machine.disk.put("app", with_main);
    EXPECT_EQ(machine.config({"app"}).program.kind, ProgramKind::python_script);
}

TEST(Program, AnEmptyNameIsRefused) {
    EXPECT_THAT(FakeMachine().usage({""}), HasSubstr("the script name (SCRIPT) is an empty text"));
    EXPECT_THAT(FakeMachine().usage({"-m", ""}), HasSubstr("the module name (SCRIPT) is an empty text"));
    EXPECT_THAT(FakeMachine().usage({"--no-python", ""}), HasSubstr("the program to run (SCRIPT) is an empty text"));
}

TEST(Program, WhatThePythonOfTheWorkersMayKnowBetterIsNotLookedFor) {
    for (const char* script : {"-", "-5", "-c"}) EXPECT_EQ(FakeMachine().config({"--", script}).program.script, script);
    EXPECT_EQ(FakeMachine().config({"-m", "no.such.mod"}).program.script, "no.such.mod");
    FakeMachine machine;
    machine.set("PYTHON_EXEC", "/usr/bin/env");
    EXPECT_EQ(machine.config({"/in/the/container.py"}).program.script, "/in/the/container.py");
}

TEST(Program, MacrosInTheScriptAreReplacedForEachRankFirst) {
    FakeMachine machine;
    machine.set("OMP_NUM_THREADS", "1");
    machine.disk.put("w0.py", regular_file());
    EXPECT_EQ(machine.config({"w${local_rank}.py", "a"}).program.script, "w${local_rank}.py");
    EXPECT_THAT(machine.usage({"--nproc-per-node=2", "w${local_rank}.py"}), HasSubstr("can't open file 'w1.py'"));
    machine.disk.put("a$b.py", regular_file());
    EXPECT_EQ(machine.config({"a$$b.py"}).program.script, "a$$b.py");
    EXPECT_THAT(machine.error({"--no-python", "./w${local_rank}.py"}).message, HasSubstr("'./w${local_rank}.py'"));
}

TEST(Program, B06AProgramThatIsNotThereIs127AndOneThatMayNotRunIs126) {
    FakeMachine machine;
    machine.disk.put("nonexec.sh", regular_file());
    machine.disk.put("w.sh", program_file());
    machine.disk.put("dir", folder());
    machine.disk.put("/usr/bin/data", regular_file());
    const auto kind = [&machine](const char* name) { return machine.error({"--no-python", name}).kind; };
    EXPECT_EQ(kind("nosuch"), ErrorKind::not_found);
    EXPECT_EQ(kind("w.sh"), ErrorKind::not_found);  // PATH does not hold the working directory
    EXPECT_EQ(kind("/no/such/prog"), ErrorKind::not_found);
    EXPECT_EQ(kind("--"), ErrorKind::usage);  // no SCRIPT at all
    EXPECT_EQ(kind("./nonexec.sh"), ErrorKind::not_executable);
    EXPECT_EQ(kind("./dir"), ErrorKind::not_executable);
    EXPECT_EQ(kind("data"), ErrorKind::not_executable);
    EXPECT_EQ(machine.config({"--no-python", "./w.sh"}).program.script, "./w.sh");
    EXPECT_EQ(machine.error({"--no-python", "--", "--", "./w.sh", "a"}).kind, ErrorKind::not_found);
    machine.set("PATH", "/usr/bin:.");
    EXPECT_EQ(machine.config({"--no-python", "w.sh"}).program.script, "w.sh");
    EXPECT_EQ(machine.config({"--no-python", "env"}).program.interpreter, "");
}

TEST(Program, PathIsSearchedAsExecvpDoes) {
    FakeMachine machine;
    machine.disk.put("odd", program_file());
    machine.disk.put("/usr/bin/twice", regular_file());
    machine.disk.put("/bin/twice", program_file());
    EXPECT_EQ(machine.config({"--no-python", "twice"}).program.script, "twice");
    for (const char* path : {":/bin", "/bin:", "/bin::/usr/bin"}) {
        machine.set("PATH", path);  // an empty entry is the working directory
        EXPECT_EQ(machine.config({"--no-python", "odd"}).program.script, "odd") << path;
    }
    machine.host.environment.erase("PATH");
    EXPECT_EQ(machine.config({"--no-python", "env"}).program.script, "env");
}

TEST(Program, ANativeExecutableGivenAsScriptRunsWithoutPython) {
    FakeMachine machine;
    machine.disk.put("train", native_file());
    machine.disk.put("/opt/train", native_file());
    machine.host.environment.erase("PATH");
    for (const auto& [typed, run] : std::map<std::string, std::string>{
             {"train", "./train"}, {"./train", "./train"}, {"/opt/train", "/opt/train"}}) {
        const ProgramConfig program = machine.config({typed, "a"}).program;
        EXPECT_EQ(program.kind, ProgramKind::executable);
        EXPECT_TRUE(program.native_script);
        EXPECT_EQ(program.script, run);
        EXPECT_EQ(program.interpreter, "");
    }
    FileStatus plain = native_file();
    plain.executable = false;
    machine.disk.put("train", plain);
    EXPECT_EQ(machine.error({"train"}).kind, ErrorKind::not_executable);
    machine.set("PYTHON_EXEC", "/usr/bin/env");
    EXPECT_EQ(machine.config({"/opt/train"}).program.kind, ProgramKind::python_script);
}

TEST(Program, TheProgramOnPathIsNotTakenForAScript) {
    FakeMachine machine;
    machine.disk.put("/usr/bin/train", native_file());
    EXPECT_THAT(machine.usage({"train"}), HasSubstr("can't open file 'train'"));
}

/// A machine with environments in several places; PATH leads to none of them.
FakeMachine pythons() {
    FakeMachine machine;
    for (const char* root : {"/venv", "/other", "/conda"}) {
        machine.disk.put(std::string(root) + "/bin/python3", program_file());
        machine.disk.put(std::string(root) + "/bin/python", program_file());
    }
    machine.disk.put("/venv/pyvenv.cfg", regular_file());
    machine.disk.put("/other/pyvenv.cfg", regular_file());
    machine.disk.put("/conda/conda-meta", folder());
    return machine;
}

struct Choice {
    std::string program_path;
    std::map<std::string, std::string> variables;
    std::string interpreter;
    bool warning = false;
};

TEST(Program, B19TheInterpreterIsTheOneThatThePlacesNameInOrder) {
    const std::string alone = "/usr/local/bin/cpprun";
    const std::vector<Choice> table{
        {alone, {}, "/usr/bin/python3"},
        {alone, {{"PATH", "/venv/bin:/usr/bin"}}, "/venv/bin/python3"},
        {alone, {{"PATH", "/venv/bin:/usr/bin"}, {"VIRTUAL_ENV", "/venv"}}, "/venv/bin/python3"},
        {alone, {{"PATH", "/venv/bin:/usr/bin"}, {"VIRTUAL_ENV", "/venv/"}}, "/venv/bin/python3"},
        {alone, {{"PATH", "/conda/bin:/usr/bin"}, {"CONDA_PREFIX", "/conda"}}, "/conda/bin/python3"},
        {alone,
         {{"PATH", "/venv/bin:/conda/bin"}, {"VIRTUAL_ENV", "/venv"}, {"CONDA_PREFIX", "/conda"}},
         "/venv/bin/python3"},
        {alone, {{"PATH", "/venv/bin"}, {"VIRTUAL_ENV", "/other"}}, "/venv/bin/python3", true},
        {alone, {{"PATH", "/venv/bin"}, {"CONDA_PREFIX", "/conda"}}, "/venv/bin/python3", true},
        {alone, {{"VIRTUAL_ENV", "/venv"}}, "/venv/bin/python3", true},  // python3 in this shell is another one
        {alone, {{"CONDA_PREFIX", "/conda"}}, "/conda/bin/python3", true},
        {alone, {{"VIRTUAL_ENV", "/venv"}, {"PATH", "/none"}}, "/venv/bin/python3"},
        {alone, {{"VIRTUAL_ENV", "/gone"}}, "/usr/bin/python3"},
        {alone, {{"VIRTUAL_ENV", ""}}, "/usr/bin/python3"},
        {"/venv/bin/torchrun", {}, "/venv/bin/python3"},
        {"/venv/bin/torchrun", {{"PATH", "/other/bin:/usr/bin"}}, "/venv/bin/python3", true},
        {"/venv/bin/torchrun", {{"VIRTUAL_ENV", "/other"}}, "/venv/bin/python3", true},
        {"/venv/bin/torchrun", {{"VIRTUAL_ENV", "/venv"}, {"PATH", "/venv/bin"}}, "/venv/bin/python3"},
        {"/usr/bin/cpprun", {{"VIRTUAL_ENV", "/venv"}, {"PATH", "/venv/bin"}}, "/venv/bin/python3"},
        {"/venv/bin/torchrun", {{"PYTHON_EXEC", "/usr/bin/env"}, {"VIRTUAL_ENV", "/other"}}, "/usr/bin/env"},
        {"/venv/bin/torchrun", {{"PYTHON_EXEC", "env"}}, "env"},
    };
    for (const Choice& row : table) {
        FakeMachine machine = pythons();
        machine.host.program_path = row.program_path;
        std::string shown = row.program_path;
        for (const auto& [name, value] : row.variables) {
            machine.set(name, value);
            shown += " " + name + "=" + value;
        }
        const LaunchRequest request = machine.launch({"w.py"});
        EXPECT_EQ(request.config.program.interpreter, row.interpreter) << shown;
        EXPECT_EQ(request.config.program.interpreter_is_own, !row.variables.contains("PYTHON_EXEC")) << shown;
        EXPECT_FALSE(request.config.program.interpreter_reason.empty()) << shown;
        EXPECT_EQ(texts(request.notices).size(), row.warning ? 1U : 0U) << shown;
    }
}

TEST(Program, B19TheWarningNamesBothInterpreters) {
    FakeMachine machine = pythons();
    machine.set("PATH", "/venv/bin").set("VIRTUAL_ENV", "/other");
    EXPECT_THAT(
        texts(machine.launch({"w.py"}).notices),
        ElementsAre(AllOf(HasSubstr("/venv/bin/python3"), HasSubstr("/other/bin/python3"), HasSubstr("PYTHON_EXEC"))));
    EXPECT_THAT(machine.launch({"--no-python", "/usr/bin/env"}).notices, IsEmpty());
}

TEST(Program, B19PythonAloneServesWherePython3IsMissing) {
    FakeMachine machine;
    machine.set("PATH", "/opt/bin");
    machine.disk.put("/opt/bin/python3", regular_file());
    machine.disk.put("/opt/bin/python", program_file());
    EXPECT_EQ(machine.config({"w.py"}).program.interpreter, "/opt/bin/python");
    machine.set("PATH", "bin");
    machine.disk.put("bin/python3", program_file());
    EXPECT_EQ(machine.config({"w.py"}).program.interpreter, "/home/user/bin/python3");
}

TEST(Program, B19WithoutAnyInterpreterItIs127) {
    FakeMachine machine;
    machine.set("PATH", "/nowhere");
    const Error error = machine.error({"w.py"});
    EXPECT_EQ(error.kind, ErrorKind::not_found);
    EXPECT_THAT(error.message, HasSubstr("no Python interpreter"));
}

TEST(Program, B19APythonExecThatCannotRunIsFoundBeforeTheStart) {
    FakeMachine machine;
    EXPECT_EQ(FakeMachine().set("PYTHON_EXEC", "").error({"w.py"}).kind, ErrorKind::usage);
    EXPECT_EQ(FakeMachine().set("PYTHON_EXEC", "/no/py").error({"w.py"}).kind, ErrorKind::not_found);
    EXPECT_EQ(FakeMachine().set("PYTHON_EXEC", "nopy").error({"w.py"}).kind, ErrorKind::not_found);
    EXPECT_EQ(FakeMachine().set("PYTHON_EXEC", "python3 -S").error({"w.py"}).message,
              "PYTHON_EXEC='python3 -S': no such interpreter on PATH");
    EXPECT_EQ(FakeMachine().set("PYTHON_EXEC", "./w.py").error({"w.py"}).kind, ErrorKind::not_executable);
    EXPECT_EQ(FakeMachine().set("PYTHON_EXEC", "").config({"--no-python", "env"}).program.kind,
              ProgramKind::executable);
}

}  // namespace
}  // namespace cpprun::test
