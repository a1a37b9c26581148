// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/worker_command.hpp"

#include "core/text/python_template.hpp"

namespace cpprun {
namespace {

// Runs SCRIPT as __main__ in the interpreter that it was given to, and leaves torch's error file when it raises
// (contract 1.7, 6.1), without importing torch. sys.argv[0] is "-c" at first; what follows is SCRIPT and its arguments.
constexpr const char* run_path_program = R"py(import json, os, runpy, sys, time, traceback
del sys.argv[0]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except (SystemExit, KeyboardInterrupt):
    raise
except BaseException as error:
    name = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if name:
        record = {"message": {"message": "%s: %s" % (type(error).__name__, error),
                  "extraInfo": {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}}}
        with open(name, "w") as file:
            json.dump(record, file)
    raise
)py";

std::string basename(const std::string& path) {
    const std::size_t slash = path.find_last_of('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::vector<std::string> worker_argv(const ProgramConfig& program, int local_rank) {
    const std::map<std::string, std::string, std::less<>> macros{{"local_rank", std::to_string(local_rank)}};
    std::vector<std::string> argv;
    switch (program.kind) {
        case ProgramKind::python_script:
            argv = {program.interpreter, "-u", safe_substitute(program.script, macros)};
            break;
        case ProgramKind::python_module:
            argv = {program.interpreter, "-u", "-m", safe_substitute(program.script, macros)};
            break;
        case ProgramKind::executable:
            argv = {program.native_script ? safe_substitute(program.script, macros) : program.script};
            break;
        case ProgramKind::run_path:
            argv = {program.interpreter, "-u", "-c", run_path_program, safe_substitute(program.script, macros)};
            break;
    }
    if (program.pass_local_rank) argv.push_back("--local-rank=" + std::to_string(local_rank));
    for (const std::string& arg : program.args) argv.push_back(safe_substitute(arg, macros));
    return argv;
}

std::string binary_description(const ProgramConfig& program) {
    if (program.kind == ProgramKind::run_path)
        return "of fn: run_script_path (start_method: " + program.start_method + ")";
    return "of binary: " + (program.kind == ProgramKind::executable ? program.script : program.interpreter);
}

std::string report_title(const ProgramConfig& program) {
    if (program.kind == ProgramKind::executable) return program.script;
    if (program.kind == ProgramKind::run_path) return "run_script_path";
    if (!program.interpreter_is_own) return program.interpreter;
    // The first word of the command that is no option. SCRIPT itself may be one ("-5"), and so may its arguments.
    if (!program.script.starts_with('-')) return program.script;
    for (const std::string& arg : program.args)
        if (!arg.starts_with('-')) return arg;
    return program.script;
}

std::string entrypoint_name(const ProgramConfig& program) {
    if (program.kind == ProgramKind::run_path) return "run_script_path";
    return basename(program.kind == ProgramKind::executable ? program.script : program.interpreter);
}

}  // namespace cpprun
