// SPDX-License-Identifier: BSD-3-Clause
// Which Python runs the workers (user case B19). torchrun uses the one it runs in; cpprun has none of its own, so it
// asks, in this order: PYTHON_EXEC; the environment (virtual or conda) that the called cpprun, or a link to it, lies
// in; the environment that PATH leads to; VIRTUAL_ENV; CONDA_PREFIX; PATH.
#pragma once

#include "core/error.hpp"
#include "core/file_lookup.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"

#include <string>
#include <vector>

namespace cpprun {

struct Interpreter {
    std::string path;             ///< absolute, or PYTHON_EXEC as given
    bool is_own = true;           ///< false when PYTHON_EXEC chose it
    std::string reason;           ///< e.g. "beside cpprun, in the environment /opt/venv"
    std::vector<Notice> notices;  ///< at most one warning: other places name another environment
};

/// Chooses. A conda environment counts as disagreeing only where VIRTUAL_ENV is not set, as a virtual environment made
/// from a conda one is common. Errors: usage for an empty PYTHON_EXEC; not_found or not_executable for a PYTHON_EXEC
/// that cannot be run; not_found, naming what was looked at, when there is no interpreter at all.
Result<Interpreter> choose_interpreter(const HostFacts& host, const FileLookup& files);

}  // namespace cpprun
