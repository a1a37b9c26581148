// SPDX-License-Identifier: BSD-3-Clause
// Prepares what the workers of an attempt are started with. What all of them share is made once: 64 workers would
// otherwise copy the environment and walk PATH 64 times before the last of them runs.
#pragma once

#include "core/agent/worker_env.hpp"
#include "core/devices/virtual_rank.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"
#include "runtime/process/spawn.hpp"

#include <optional>
#include <string>
#include <vector>

namespace cpprun {

class WorkerStarter {
  public:
    /// `environment` is what the agent itself was given. All arguments must outlive the starter.
    WorkerStarter(const LaunchConfig& config, const Environment& environment,
                  const std::optional<VirtualDevices>& devices);

    /// For a new attempt; of `place` everything but local_rank and error_file counts.
    void begin_attempt(const WorkerPlace& place);

    /// Executable, arguments and environment of the worker at `place`. The texts live until the next call.
    SpawnSpec prepare(const WorkerPlace& place);

  private:
    Environment own_variables(const WorkerPlace& place) const;

    const LaunchConfig& config_;
    const Environment& environment_;
    const std::optional<VirtualDevices>& devices_;
    std::string executable_;                 ///< found on PATH; empty: argv[0] as it is
    std::vector<std::string> shared_texts_;  ///< "NAME=value"
    std::vector<std::string> own_texts_;
};

}  // namespace cpprun
