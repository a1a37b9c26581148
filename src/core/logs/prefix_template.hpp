// SPDX-License-Identifier: BSD-3-Clause
// What stands before each line of a teed stream (contract 5.4, 1.11): --log-line-prefix-template and
// TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE.
#pragma once

#include "core/host_facts.hpp"

#include <optional>
#include <string>

namespace cpprun {

/// The template to use: `option` (the command line, or PET_LOG_LINE_PREFIX_TEMPLATE where the command line is silent),
/// then TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, then `[${role_name}${local_rank}]:`. An empty one counts as not given.
std::string choose_prefix_template(const std::optional<std::string>& option, const Environment& environment);

/// What a template may name. The ranks are those of the present round: make the prefix anew after each rendezvous.
struct PrefixValues {
    std::string role_name;
    int local_rank = 0;
    int rank = 0;
    std::string hostname;  ///< as gethostname() gives it, not the full name
};

/// The template with `${role_name}`, `${local_rank}`, `${rank}` and `${hostname}` replaced; other names stay.
std::string line_prefix(const std::string& prefix_template, const PrefixValues& values);

}  // namespace cpprun
