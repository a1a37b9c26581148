// SPDX-License-Identifier: BSD-3-Clause
// The way in: the words of the command line and the machine in, a launch, a text or an error out. Pure; main.cpp is
// its only caller beside tests.
#pragma once

#include "cli/resolve_config.hpp"
#include "core/error.hpp"
#include "core/file_lookup.hpp"
#include "core/host_facts.hpp"

#include <functional>
#include <span>
#include <string>
#include <variant>

namespace cpprun {

/// --help, --version, --print-completion, --print-config: for stdout, with exit code 0. Ends with a line end.
struct TextOutput {
    std::string text;
};

using Invocation = std::variant<LaunchRequest, TextOutput>;

/// Reads `arguments` (without the program's name). What is wrong is reported in this order: LOGLEVEL, the variables of
/// flags, ambiguous abbreviations, then along the line from left to right (--help and its like take effect where they
/// stand), other variables, a missing SCRIPT, unknown options, and what resolve_config finds. `probe_devices` is called
/// at most once, and only where accelerators matter. Errors: usage, not_found, not_executable; one line each.
Result<Invocation> parse_command_line(std::span<const std::string> arguments, const HostFacts& host,
                                      const FileLookup& files, const ProbeDevices& probe_devices);

}  // namespace cpprun
