// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/rank_assignment.hpp"

#include <map>

namespace cpprun {

std::vector<RankRange> assign_ranks(const std::vector<AgentShare>& agents) {
    int world = 0;
    std::map<std::string, int> role_world;
    std::vector<RankRange> out;
    out.reserve(agents.size());
    for (const AgentShare& agent : agents) {
        RankRange range;
        range.group_rank = static_cast<int>(out.size());
        range.group_world_size = static_cast<int>(agents.size());
        range.local_world_size = agent.local_world_size;
        range.global_base = world;
        range.role_base = role_world[agent.role];
        world += agent.local_world_size;
        role_world[agent.role] += agent.local_world_size;
        out.push_back(range);
    }
    for (std::size_t i = 0; i < agents.size(); ++i) {
        out[i].world_size = world;
        out[i].role_world_size = role_world[agents[i].role];
    }
    return out;
}

RankRange assign_identical_ranks(int group_rank, int group_world_size, int local_world_size) {
    const int base = group_rank * local_world_size;
    const int world = group_world_size * local_world_size;
    return {group_rank, group_world_size, local_world_size, base, world, base, world};
}

}  // namespace cpprun
