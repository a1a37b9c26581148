// SPDX-License-Identifier: BSD-3-Clause
// The blocks that LOGLEVEL=INFO shows at the start of a run, in torchrun's words (contract 2.7, 4.9).
#pragma once

#include "core/agent/worker_env.hpp"
#include "core/launch_config.hpp"

#include <string>

namespace cpprun {

/// The three settings that --standalone made, between lines of asterisks.
std::string standalone_block(const LaunchConfig& config);

/// "Starting elastic_operator with launch configs:" and one line for each setting. `log_base` is the directory that
/// holds the logs, as given or made.
std::string launch_block(const LaunchConfig& config, const std::string& log_base);

/// "[role] Rendezvous complete for workers. Result:" and one line for each value.
std::string rendezvous_block(const LaunchConfig& config, int restart_count, const MasterAddress& master,
                             const RankRange& ranks);

}  // namespace cpprun
