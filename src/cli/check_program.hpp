// SPDX-License-Identifier: BSD-3-Clause
// SCRIPT, looked at before anything is started (contract 1.7, user cases B06 and B08): what runs it, and whether it
// is there at all. torchrun leaves that to its workers.
#pragma once

#include "cli/raw_args.hpp"
#include "core/error.hpp"
#include "core/file_lookup.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"

#include <vector>

namespace cpprun {

/// The program of the launch, interpreter included, and what choosing it had to say.
struct CheckedProgram {
    ProgramConfig program;
    std::vector<Notice> notices;
};

/// Decides how SCRIPT is run (--run-path before --no-python and --module) and looks for it, with macros replaced for
/// each of `nproc` local ranks. A native executable file given as SCRIPT is run directly; without a slash in its name
/// it becomes "./NAME", as PATH is for --no-python only. Not looked for: "-", a SCRIPT that begins with "-" (an option
/// of Python), and any SCRIPT when PYTHON_EXEC is set, as that may lead into a container where the file exists.
/// Errors: usage for --no-python with --module, an empty SCRIPT or module name, a script that is missing, cannot be
/// read, or is a directory without __main__.py; not_found and not_executable for programs; those of
/// choose_interpreter.
Result<CheckedProgram> check_program(const RawArgs& raw, int nproc, const HostFacts& host, const FileLookup& files);

}  // namespace cpprun
