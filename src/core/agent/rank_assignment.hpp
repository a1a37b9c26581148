// SPDX-License-Identifier: BSD-3-Clause
// Who is who in the world: ranks of all workers from what each agent brings (contract 7.1).
#pragma once

#include <string>
#include <vector>

namespace cpprun {

/// What one agent brings to a round.
struct AgentShare {
    std::string role;
    int local_world_size = 0;  ///< workers on that node, > 0
};

/// One agent's part of the world. Its worker with local rank i has global rank `global_base` + i and role rank
/// `role_base` + i.
struct RankRange {
    int group_rank = 0;
    int group_world_size = 1;
    int local_world_size = 0;
    int global_base = 0;
    int world_size = 0;
    int role_base = 0;
    int role_world_size = 0;

    friend bool operator==(const RankRange&, const RankRange&) = default;
};

/// Ranks of every agent; `agents` is in order of group rank, and so is the result.
std::vector<RankRange> assign_ranks(const std::vector<AgentShare>& agents);

/// The short form of TORCH_ELASTIC_WORKER_IDENTICAL=1: every node has `local_world_size` workers of one role, and role
/// ranks equal global ranks (contract 7.1).
RankRange assign_identical_ranks(int group_rank, int group_world_size, int local_world_size);

}  // namespace cpprun
