// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/rank_assignment.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace cpprun {
namespace {

TEST(RankAssignment, OneNodeOwnsTheWholeWorld) {
    const auto ranks = assign_ranks({{"default", 4}});
    EXPECT_EQ(ranks, (std::vector<RankRange>{{0, 1, 4, 0, 4, 0, 4}}));
}

TEST(RankAssignment, DifferentLocalSizesAndRolesAreCountedApart) {
    const auto ranks = assign_ranks(
        {{"master", 8}, {"trainer", 1}, {"trainer", 2}, {"trainer", 3}, {"trainer", 4}, {"ps", 5}, {"ps", 2}});
    EXPECT_EQ(ranks[0].world_size, 25);
    EXPECT_EQ(ranks[0].role_world_size, 8);
    EXPECT_EQ(ranks[3].global_base, 11);
    EXPECT_EQ(ranks[3].role_base, 3);
    EXPECT_EQ(ranks[3].role_world_size, 10);
    EXPECT_EQ(ranks[6].role_base, 5);
    EXPECT_EQ(ranks[6].role_world_size, 7);
}

TEST(RankAssignment, RanksAreContiguousInBothNumberings) {
    std::mt19937 random(7);
    for (int round = 0; round < 500; ++round) {
        std::vector<AgentShare> agents(1 + random() % 9);
        for (AgentShare& agent : agents)
            agent = {std::string(1, static_cast<char>('a' + random() % 3)), int(1 + random() % 8)};
        int next = 0;
        std::map<std::string, int> next_in_role;
        const auto ranks = assign_ranks(agents);
        for (std::size_t i = 0; i < agents.size(); ++i) {
            EXPECT_EQ(ranks[i].global_base, next);
            EXPECT_EQ(ranks[i].role_base, next_in_role[agents[i].role]);
            next += agents[i].local_world_size;
            next_in_role[agents[i].role] += agents[i].local_world_size;
        }
        for (std::size_t i = 0; i < agents.size(); ++i) {
            EXPECT_EQ(ranks[i].world_size, next);
            EXPECT_EQ(ranks[i].role_world_size, next_in_role[agents[i].role]);
        }
    }
}

TEST(RankAssignment, IdenticalNodesNeedNoExchange) {
    EXPECT_EQ(assign_identical_ranks(1, 3, 4), (RankRange{1, 3, 4, 4, 12, 4, 12}));
}

}  // namespace
}  // namespace cpprun
