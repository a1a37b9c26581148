// SPDX-License-Identifier: BSD-3-Clause
// Where the workers of an attempt meet on a single node: a store of the agent's, or a port kept for worker 0.
#pragma once

#include "core/agent/worker_env.hpp"
#include "core/error.hpp"
#include "core/launch_config.hpp"
#include "runtime/store/store_host.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace cpprun {

class WorkerMeeting {
  public:
    /// Takes the port (a given one, or any that is free) and, unless a worker hosts the store, serves it. `complain`
    /// hears what the store wants said; it is called on the store's thread. Failure: the port is in use, and by whom.
    static Result<std::unique_ptr<WorkerMeeting>> open(const LaunchConfig& config, StoreLog complain);

    /// The place for a new attempt, whose workers find nothing of a former one: the agent's store keeps its port and
    /// forgets all; a worker's store gets a fresh port where the endpoint names none.
    Result<MasterAddress> begin_attempt();

  private:
    explicit WorkerMeeting(const LaunchConfig& config);
    Result<void> reserve();

    bool agent_store_;
    std::string host_;
    bool fixed_port_ = false;
    PortRange ports_;
    bool fresh_ = true;
    std::unique_ptr<StoreHost> store_;
    std::optional<ReservedPort> reserved_;
};

}  // namespace cpprun
