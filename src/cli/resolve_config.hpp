// SPDX-License-Identifier: BSD-3-Clause
// RawArgs and the machine in, the complete LaunchConfig out: everything that torchrun derives from its options and
// from other variables (contract 1.4, 1.5, 1.10, 2), in its order of checks.
#pragma once

#include "cli/raw_args.hpp"
#include "core/error.hpp"
#include "core/file_lookup.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"

#include <functional>
#include <string>
#include <vector>

namespace cpprun {

/// A launch, ready to start, and what is to be said about it first.
struct LaunchRequest {
    LaunchConfig config;
    std::vector<Notice> notices;
};

/// Looks for accelerators. With `ask_drivers` the drivers are asked as well (MIG slices, UUIDs), which takes long
/// enough to be done only for words that count devices.
using ProbeDevices = std::function<DeviceFacts(bool ask_drivers)>;

/// LOGLEVEL: a level name of Python's logging, WARNING when it is not set. Error, ErrorKind::usage: anything else,
/// lower case and the empty text included.
Result<std::string> parse_log_level(const Environment& environment);

/// Resolves. `probe_devices` is called at most once, and only when --nproc-per-node is a word that needs devices or
/// asks for several workers. Errors: usage for every wrong value; those of check_program.
Result<LaunchRequest> resolve_config(const RawArgs& raw, const HostFacts& host, const FileLookup& files,
                                     const ProbeDevices& probe_devices);

}  // namespace cpprun
