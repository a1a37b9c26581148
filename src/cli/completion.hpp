// SPDX-License-Identifier: BSD-3-Clause
// --print-completion: a shell's completion script, made from the option table (torchrun needs a Python package for
// it, contract 1.11).
#pragma once

#include <string>
#include <string_view>

namespace cpprun {

/// The script for `shell` ("bash", "zsh" or "tcsh"), to be evaluated by it; it completes options, the words of choice
/// options, and files for SCRIPT and its arguments, for the commands cpprun and `program_name`.
std::string completion_script(std::string_view shell, std::string_view program_name);

}  // namespace cpprun
