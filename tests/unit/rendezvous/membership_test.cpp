// SPDX-License-Identifier: BSD-3-Clause
// Which ranks the nodes of a round get; user cases B74, B75, B76.
#include "core/rendezvous/membership.hpp"

#include <gmock/gmock.h>

namespace cpprun {
namespace {

using testing::ElementsAre;

std::vector<std::string> ranked(const std::vector<std::string>& names, const RoundLimits& limits,
                                const WantedRanks& wanted = {}) {
    RendezvousState state;
    for (const std::string& name : names) add_participant(state, {name, 1, 0}, {}, limits);
    complete_round(state, wanted, limits);
    std::vector<std::string> by_rank(names.size());
    for (const auto& [node, rank] : state.participants) by_rank.at(static_cast<std::size_t>(rank)) = node.addr;
    return by_rank;
}

RoundLimits ordered(RankOrder order, std::optional<NodeId> host = {}) {
    RoundLimits limits{4, 4};
    limits.rank_order = order;
    limits.host = std::move(host);
    return limits;
}

const std::vector<std::string> names{"node7", "node66", "node8", "node70"};

TEST(Membership, B76NodesAreInNaturalOrder) {
    EXPECT_THAT(ranked(names, ordered(RankOrder::natural)), ElementsAre("node7", "node8", "node66", "node70"));
    EXPECT_THAT(ranked({"10.0.0.10", "10.0.0.9"}, ordered(RankOrder::natural)), ElementsAre("10.0.0.9", "10.0.0.10"));
}

TEST(Membership, B76NodesCanBeInTorchsOrder) {
    EXPECT_THAT(ranked(names, ordered(RankOrder::lexicographic)), ElementsAre("node66", "node7", "node70", "node8"));
}

TEST(Membership, B75TheHostCanComeFirst) {
    EXPECT_THAT(ranked(names, ordered(RankOrder::host_first, NodeId{"node66", 1, 0})),
                ElementsAre("node66", "node7", "node8", "node70"));
    EXPECT_THAT(ranked(names, ordered(RankOrder::host_first, NodeId{"node9", 1, 0})),
                ElementsAre("node7", "node8", "node66", "node70"));
    EXPECT_THAT(ranked(names, ordered(RankOrder::host_first)), ElementsAre("node7", "node8", "node66", "node70"));
}

TEST(Membership, B74WishesComeBeforeAnyOrder) {
    const WantedRanks wanted{{{"node7", 1, 0}, 3}, {{"node8", 1, 0}, 2}, {{"node66", 1, 0}, 1}, {{"node70", 1, 0}, 0}};
    for (const RankOrder order : {RankOrder::natural, RankOrder::lexicographic, RankOrder::host_first})
        EXPECT_THAT(ranked(names, ordered(order, NodeId{"node66", 1, 0}), wanted),
                    ElementsAre("node70", "node66", "node8", "node7"));
}

TEST(Membership, B74WishesThatDoNotFitTogetherAreNobodys) {
    for (const std::int64_t wish : {0, 1, 4, -1}) {
        WantedRanks wanted{{{"a", 1, 0}, 1}, {{"b", 1, 0}, 0}, {{"c", 1, 0}, wish}};
        EXPECT_THAT(ranked({"c", "b", "a"}, ordered(RankOrder::natural), wanted), ElementsAre("a", "b", "c")) << wish;
    }
    EXPECT_THAT(ranked({"b", "a"}, ordered(RankOrder::natural), {{{"a", 1, 0}, 1}}), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace cpprun
