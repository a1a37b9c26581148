// SPDX-License-Identifier: BSD-3-Clause
// The environment contract: which variables a worker gets (contract 3.1, 3.2, 3.4).
#pragma once

#include "core/agent/rank_assignment.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"

#include <cstdint>
#include <string>

namespace cpprun {

/// Where the workers of one attempt meet.
struct MasterAddress {
    std::string host;  ///< no brackets
    std::uint16_t port = 0;
    bool agent_store = true;  ///< the agent serves it: TORCHELASTIC_USE_AGENT_STORE=True
};

/// One worker's place in one attempt.
struct WorkerPlace {
    int local_rank = 0;
    RankRange ranks;
    int restart_count = 0;
    std::int64_t round = 0;
    MasterAddress master;
    std::string error_file;             ///< empty with --log-dir=/dev/null
    std::string timer_file;             ///< empty: the file timer is off and no variable is set
    std::string heartbeat_socket = {};  ///< empty: nobody listens and no variable is set
};

/// Variables that replace the agent's own in this worker's environment; all other variables pass unchanged.
/// `inherited` is the agent's environment; it decides TORCH_NCCL_ASYNC_ERROR_HANDLING. The device variables of
/// --virtual-local-rank are not here: core/devices/virtual_rank.hpp makes them. The union of the two below.
Environment worker_variables(const LaunchConfig& config, const WorkerPlace& place, const Environment& inherited);

/// Those that are the same for all workers of one attempt on this node.
Environment group_variables(const LaunchConfig& config, const WorkerPlace& place, const Environment& inherited);

/// Those that differ from worker to worker: of `place` local_rank, the ranks' bases and error_file count. The names are
/// the same for all.
Environment rank_variables(const LaunchConfig& config, const WorkerPlace& place);

}  // namespace cpprun
