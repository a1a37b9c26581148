// SPDX-License-Identifier: BSD-3-Clause
// The grammar of Python's argparse, as it shows in torchrun's command line (contract 1.6): which words are options,
// which are their values, where the script begins. It knows words only: what a value means, and whether the script is
// missing, is for the caller to say. The differences from argparse are these:
// - nothing behind SCRIPT is looked at (argparse refuses `s.py --r=1` as an ambiguous abbreviation);
// - an abbreviation that fits both spellings of one option is that option;
// - dashes and underscores may be mixed within a long name;
// - cpprun's own options are known by their full names only.
#pragma once

#include "cli/flag_table.hpp"
#include "core/error.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cpprun {

/// One option as it was used. `value` is empty for a flag.
struct OptionUse {
    const OptionSpec* option = nullptr;
    std::string value;
};

/// A command line taken apart. `uses` stand in the order of the command line. `problem` is what argparse would have
/// refused after carrying out all of `uses`, so a wrong value or --help among them comes first. `unrecognized` are the
/// unknown options before SCRIPT, which argparse reports last of all, after a missing script.
struct Words {
    std::vector<OptionUse> uses;
    std::optional<Error> problem;
    std::vector<std::string> unrecognized;
    std::optional<std::string> script;
    std::vector<std::string> args;
};

/// Takes `arguments` (without the program's name) apart. The `--` that ends the options and the one directly after
/// SCRIPT are dropped. Error, ErrorKind::usage: an ambiguous abbreviation before SCRIPT, which argparse refuses before
/// it looks at anything else.
Result<Words> split_words(std::span<const std::string> arguments);

}  // namespace cpprun
