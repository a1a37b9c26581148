// SPDX-License-Identifier: BSD-3-Clause
// The values of --redirects (-r) and --tee (-t): which streams of which local ranks (contract 5.2).
#pragma once

#include "core/error.hpp"
#include "core/launch_config.hpp"

#include <string_view>

namespace cpprun {

/// Reads `0`, `1`, `2` or `3` (none, stdout, stderr, both, for all ranks), or a map `RANK:VALUE,RANK:VALUE` (ranks that
/// are not in it get none; of two entries for one rank the last counts). No blanks, no comma at the end.
/// torchrun knows the ranks 0..9 only; here a rank may have more digits, without leading zeros.
/// Usage error, in torchrun's words, for anything else; `option_name` is the option as the user knows it.
Result<StdSpec> parse_std_spec(std::string_view option_name, std::string_view text);

}  // namespace cpprun
