// SPDX-License-Identifier: BSD-3-Clause
// The one line that refuses a value: option, what is wrong, the value as given, its variable if it came from one, and
// what would be accepted. The wording up to the bracket is argparse's, as tools look for it (contract 1.3, 1.10).
#pragma once

#include "cli/raw_args.hpp"
#include "core/error.hpp"

#include <string>
#include <string_view>

namespace cpprun {

/// "argument --max-restarts/--max_restarts: PROBLEM (set by PET_MAX_RESTARTS; accepted: …)". ErrorKind::usage.
/// `problem` names the value itself, by python_repr.
Error wrong_value(const OptionSpec& spec, Source source, std::string_view problem);

/// wrong_value with the problem "invalid value: 'x'", and `reason` behind it when not empty.
Error invalid_value(const RawArgs& raw, OptionId id, std::string_view reason = {});

/// "'a', 'b', 'c'" for the choices of `spec`.
std::string quoted_choices(const OptionSpec& spec);

/// Whether `word` is one of the choices of `spec`.
bool is_choice(const OptionSpec& spec, std::string_view word);

}  // namespace cpprun
