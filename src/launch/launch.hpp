// SPDX-License-Identifier: BSD-3-Clause
// One launch from its configuration to its exit code.
#pragma once

#include "core/host_facts.hpp"
#include "core/launch_config.hpp"
#include "runtime/os/signal_source.hpp"

#include <vector>

namespace cpprun {

/// Shows `notices`, takes ports and directories, runs the agent, reports. The process's exit code; when a signal that
/// nobody asked to handle ended the run, this does not return but dies of it.
int launch(const LaunchConfig& config, const std::vector<Notice>& notices, const HostFacts& host,
           const SignalInheritance& signals);

}  // namespace cpprun
