// SPDX-License-Identifier: BSD-3-Clause
// What the texts and codes of failures usually mean: one table for each.
#pragma once

#include "core/agent/exit_status.hpp"

#include <string>
#include <string_view>

namespace cpprun {

/// What a text that a worker left says about its failure.
struct KnownError {
    std::string_view text;         ///< stands in it
    bool consequence = false;      ///< of another rank's end: this one is no root cause
    std::string_view explanation;  ///< a clause for the report
};

/// The first entry of the table whose text is in `words`; null: none.
const KnownError* find_known_error(std::string_view words);

/// What such an end usually means, as a clause; empty: nothing is known about it.
std::string usual_meaning(const ExitStatus& status);

/// "exit code 3", "SIGSEGV (11)".
std::string status_text(const ExitStatus& status);

}  // namespace cpprun
