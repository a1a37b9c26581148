// SPDX-License-Identifier: BSD-3-Clause
// What the user asked for, option by option, with the place it came from: numbers are read and choices checked, but
// nothing is derived yet and the machine has not been looked at (resolve_config does both).
#pragma once

#include "cli/flag_table.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cpprun {

/// Where a value came from.
enum class Source { builtin, environment, command_line };

/// One option's value. `integer` and `real` are filled in for options of that kind; a flag that is on has integer 1.
struct Setting {
    Source source = Source::builtin;
    std::string text;
    std::int64_t integer = 0;
    double real = 0;
    std::vector<std::string> values;  ///< of an option that collects: every value that counts, in order

    /// Whether the user gave it, on the command line or by a variable.
    bool given() const { return source != Source::builtin; }
    bool on() const { return integer != 0; }
};

struct RawArgs {
    std::array<Setting, option_count> settings;
    std::string script;
    std::vector<std::string> args;

    Setting& operator[](OptionId id) { return settings[static_cast<std::size_t>(id)]; }
    const Setting& operator[](OptionId id) const { return settings[static_cast<std::size_t>(id)]; }
};

}  // namespace cpprun
