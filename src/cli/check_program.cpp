// SPDX-License-Identifier: BSD-3-Clause
#include "cli/check_program.hpp"

#include "cli/choose_interpreter.hpp"
#include "cli/python_repr.hpp"
#include "cli/search_path.hpp"
#include "core/text/python_template.hpp"

namespace cpprun {
namespace {

Result<ProgramKind> program_kind(const RawArgs& raw) {
    if (raw[OptionId::run_path].on()) return ProgramKind::run_path;
    if (raw[OptionId::no_python].on() && raw[OptionId::module].on())
        return usage_error("Don't use both the '--no-python' flag and the '--module' flag at the same time.");
    if (raw[OptionId::no_python].on()) return ProgramKind::executable;
    return raw[OptionId::module].on() ? ProgramKind::python_module : ProgramKind::python_script;
}

/// SCRIPT as each local rank sees it; one entry when all see the same.
std::vector<std::string> script_paths(const std::string& script, int nproc) {
    if (script.find('$') == std::string::npos) return {script};
    std::vector<std::string> paths;
    for (int rank = 0; rank < nproc; ++rank) {
        paths.push_back(safe_substitute(script, {{"local_rank", std::to_string(rank)}}));
        if (rank == 1 && paths[0] == paths[1]) return {paths[0]};
    }
    return paths;
}

std::string place(const std::string& path, const HostFacts& host) {
    return python_repr(path) + (path.starts_with('/') ? "" : " in " + python_repr(host.working_directory));
}

Result<void> look_at_script(const std::string& path, const HostFacts& host, const FileLookup& files) {
    const FileStatus status = files.look(path);
    if (!status.exists) return usage_error("can't open file " + place(path, host) + ": no such file or directory");
    if (status.directory && !status.contains_main_py)
        return usage_error("can't find '__main__' module in the directory " + place(path, host));
    if (!status.directory && !status.readable)
        return usage_error("can't open file " + place(path, host) + ": permission denied");
    return boost::outcome_v2::success();
}

Result<void> look_at_scripts(const std::vector<std::string>& paths, const HostFacts& host, const FileLookup& files) {
    for (const std::string& path : paths) {
        BOOST_OUTCOME_TRY(look_at_script(path, host, files));
    }
    return boost::outcome_v2::success();
}

bool all_native(const std::vector<std::string>& paths, const FileLookup& files) {
    for (const std::string& path : paths) {
        const FileStatus status = files.look(path);
        if (!status.regular || !status.native_program) return false;
    }
    return true;
}

Error not_executable(const std::string& path, const HostFacts& host) {
    return {ErrorKind::not_executable, place(path, host) + ": permission denied: it may not be executed"};
}

/// Looks for the program of --no-python as execvp will.
Result<void> look_at_program(const std::string& name, const HostFacts& host, const FileLookup& files) {
    if (name.empty()) return usage_error("the program to run (SCRIPT) is an empty text");
    if (name.find('/') != std::string::npos) {
        const FileStatus status = files.look(name);
        if (!status.exists) return Error{ErrorKind::not_found, place(name, host) + ": no such file or directory"};
        if (!status.executable) return not_executable(name, host);
        return boost::outcome_v2::success();
    }
    const PathSearch found = search_path(name, host, files);
    if (found.executable) return boost::outcome_v2::success();
    if (found.refused) return not_executable(*found.refused, host);
    return Error{ErrorKind::not_found, python_repr(name) + ": no such program on PATH"};
}

/// Turns `program` into a direct start when SCRIPT is a native executable; true if it is one.
Result<bool> take_native(ProgramConfig& program, const std::vector<std::string>& paths, const HostFacts& host,
                         const FileLookup& files) {
    if (!all_native(paths, files)) return false;
    for (const std::string& path : paths)
        if (!files.look(path).executable) return not_executable(path, host);
    program.kind = ProgramKind::executable;
    program.native_script = true;
    if (program.script.find('/') == std::string::npos) program.script.insert(0, "./");
    return true;
}

/// Looks at the script of the Python modes; true when it turned out to need no Python.
Result<bool> look_at_python_script(ProgramConfig& program, int nproc, const HostFacts& host, const FileLookup& files) {
    if (program.script.empty())
        return usage_error(program.kind == ProgramKind::python_module ? "the module name (SCRIPT) is an empty text"
                                                                      : "the script name (SCRIPT) is an empty text");
    const bool hidden = program.script.starts_with('-') || host.environment.contains("PYTHON_EXEC");
    if (hidden || program.kind == ProgramKind::python_module) return false;
    const std::vector<std::string> paths = script_paths(program.script, nproc);
    if (program.kind == ProgramKind::python_script) {
        BOOST_OUTCOME_TRY(const bool native, take_native(program, paths, host, files));
        if (native) return true;
    }
    BOOST_OUTCOME_TRY(look_at_scripts(paths, host, files));
    return false;
}

}  // namespace

Result<CheckedProgram> check_program(const RawArgs& raw, int nproc, const HostFacts& host, const FileLookup& files) {
    CheckedProgram checked;
    ProgramConfig& program = checked.program;
    BOOST_OUTCOME_TRY(program.kind, program_kind(raw));
    program.script = raw.script;
    program.args = raw.args;
    program.pass_local_rank = raw[OptionId::pass_local_rank].on();
    program.start_method = raw[OptionId::start_method].text;
    if (program.kind == ProgramKind::executable) {
        BOOST_OUTCOME_TRY(look_at_program(program.script, host, files));
        return checked;
    }
    BOOST_OUTCOME_TRY(const bool native, look_at_python_script(program, nproc, host, files));
    if (native) return checked;
    BOOST_OUTCOME_TRY(Interpreter interpreter, choose_interpreter(host, files));
    program.interpreter = std::move(interpreter.path);
    program.interpreter_is_own = interpreter.is_own;
    program.interpreter_reason = std::move(interpreter.reason);
    checked.notices = std::move(interpreter.notices);
    return checked;
}

}  // namespace cpprun
