// SPDX-License-Identifier: BSD-3-Clause
// Options from the environment: PET_* for torchrun's options, CPPRUN_* for our own (contract 1.2 and 1.3, user case
// B10).
#pragma once

#include "cli/raw_args.hpp"
#include "core/error.hpp"
#include "core/host_facts.hpp"

#include <string>
#include <vector>

namespace cpprun {

/// Switches on every flag whose variable says so by Python's int(): not 0 is on. Flags come before all else, as
/// torchrun reads their variables while it builds its parser, --help or not. Error, ErrorKind::usage: a value that
/// int() refuses, the empty one included.
Result<void> read_flag_variables(const Environment& environment, RawArgs& raw);

/// Gives every option with a value that is not on the command line its variable's value, if the variable is set (also
/// to nothing), in the order of the table. Unlike torchrun it checks choices too. Error, ErrorKind::usage: a value
/// that the option would refuse, or one that still holds "$(" or "${": a template that nobody filled in.
Result<void> read_value_variables(const Environment& environment, RawArgs& raw);

/// "NAME='value'" of each variable that decides about an option; in the order of the table.
std::vector<std::string> variables_that_decide(const RawArgs& raw);

}  // namespace cpprun
