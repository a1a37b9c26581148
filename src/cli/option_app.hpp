// SPDX-License-Identifier: BSD-3-Clause
// The option table as a CLI11 application: CLI11 reads and checks the typed values and lays out the help text. The
// words of the command line never reach its own parser, whose grammar is not argparse's (see argument_grammar.hpp).
#pragma once

#include "cli/raw_args.hpp"
#include "core/error.hpp"

#include <string>
#include <string_view>

namespace cpprun {

/// Reads `text` as a value of `spec` into `setting`, source included. Numbers follow Python's syntax, choices are
/// checked, texts are taken byte for byte. Error, ErrorKind::usage: "invalid int value: 'x'", "invalid float value:
/// 'x'" or "invalid choice: 'x' (choose from …)", naming the option and the variable it came from.
Result<void> read_value(const OptionSpec& spec, std::string_view text, Source source, Setting& setting);

/// The text of --help, beginning with "usage: " and `program_name`.
std::string help_text(std::string_view program_name);

}  // namespace cpprun
