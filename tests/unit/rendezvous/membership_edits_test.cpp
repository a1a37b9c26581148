// SPDX-License-Identifier: BSD-3-Clause
// What every change of the shared state keeps.
#include "core/rendezvous/membership.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace cpprun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const WallTime now{seconds(1'700'000'000)};

NodeId node(const std::string& name) {
    return {name, 1, 0};
}

RoundLimits limits(int min, int max) {
    return {min, max, seconds(30)};
}

RendezvousState with_participants(const std::vector<std::string>& names, const RoundLimits& bounds) {
    RendezvousState state;
    for (const std::string& name : names) add_participant(state, node(name), now, bounds);
    return state;
}

/// What torch's agents rely on; empty if all is well.
std::string unsound(const RendezvousState& state, const RoundLimits& bounds) {
    std::set<NodeId> all;
    std::size_t places = 0;
    for (const auto& [member, rank] : state.participants) all.insert(member), ++places;
    for (const NodeId& member : state.wait_list) all.insert(member), ++places;
    for (const NodeId& member : state.redundancy_list) all.insert(member), ++places;
    if (all.size() != places) return "a node is in two lists";
    std::set<NodeId> beating;
    for (const auto& [member, time] : state.last_heartbeats) beating.insert(member);
    if (beating != all) return "heartbeats are not those of the listed nodes";
    if (state.complete && state.participants.empty()) return "a complete round without members";
    if (!state.complete) {
        for (const auto& [member, rank] : state.participants)
            if (rank != 0) return "a rank before completion";
        const bool enough = static_cast<int>(state.participants.size()) >= bounds.min_nodes;
        if (enough != state.deadline.has_value()) return "the last call does not fit the number of members";
    }
    return {};
}

TEST(MembershipEdits, TheLastCallBeginsWithTheSmallestNumberAndEndsBelowIt) {
    const RoundLimits bounds = limits(2, 4);
    RendezvousState state = with_participants({"a"}, bounds);
    EXPECT_EQ(state.deadline, std::nullopt);
    add_participant(state, node("b"), now + seconds(1), bounds);
    EXPECT_EQ(state.deadline, now + seconds(31));
    add_participant(state, node("c"), now + seconds(2), bounds);
    EXPECT_EQ(state.deadline, now + seconds(31)) << "later nodes do not make it longer";
    remove_node(state, node("c"), bounds);
    EXPECT_EQ(state.deadline, now + seconds(31));
    remove_node(state, node("b"), bounds);
    EXPECT_EQ(state.deadline, std::nullopt);
}

TEST(MembershipEdits, WishesThatDoNotFitTogetherAreNamed) {
    const RoundLimits bounds = limits(3, 3);
    const RendezvousState state = with_participants({"a", "b", "c"}, bounds);
    EXPECT_THAT(wanted_rank_problems(state, {{node("a"), 1}, {node("b"), 1}, {node("c"), 3}, {node("stranger"), -1}}),
                ElementsAre("node rank 1 is wanted by a and by b", HasSubstr("node rank 3 of c is not below")));
    EXPECT_THAT(wanted_rank_problems(state, {{node("a"), 1}}),
                ElementsAre(HasSubstr("2 of 3 nodes have no node rank")));
    EXPECT_THAT(wanted_rank_problems(state, {{node("a"), 2}, {node("b"), 0}, {node("c"), 1}}), IsEmpty());
    EXPECT_THAT(wanted_rank_problems(state, {{node("stranger"), 1}}), IsEmpty());
}

TEST(MembershipEdits, AFullRoundTurnsWhoWaitsIntoSpares) {
    const RoundLimits bounds = limits(2, 2);
    RendezvousState state = with_participants({"a", "b"}, bounds);
    add_waiting(state, node("c"), now);
    complete_round(state, {}, bounds);
    EXPECT_THAT(state.wait_list, IsEmpty());
    EXPECT_THAT(state.redundancy_list, ElementsAre(node("c")));
    EXPECT_TRUE(state.last_heartbeats.contains(node("c")));
}

TEST(MembershipEdits, ARoundWithFreeSeatsKeepsWhoWaits) {
    const RoundLimits bounds = limits(2, 3);
    RendezvousState state = with_participants({"a", "b"}, bounds);
    add_waiting(state, node("c"), now);
    complete_round(state, {}, bounds);
    EXPECT_THAT(state.wait_list, ElementsAre(node("c")));
    EXPECT_THAT(state.redundancy_list, IsEmpty());
}

TEST(MembershipEdits, TheLastMemberThatGoesBeginsTheNextRound) {
    const RoundLimits bounds = limits(1, 2);
    RendezvousState state = with_participants({"a", "b"}, bounds);
    complete_round(state, {}, bounds);
    remove_node(state, node("a"), bounds);
    EXPECT_TRUE(state.complete);
    EXPECT_EQ(state.round, 0);
    remove_node(state, node("b"), bounds);
    EXPECT_FALSE(state.complete);
    EXPECT_EQ(state.round, 1);
}

TEST(MembershipEdits, ASpareThatGoesChangesNothingElse) {
    const RoundLimits bounds = limits(1, 1);
    RendezvousState state = with_participants({"a"}, bounds);
    complete_round(state, {}, bounds);
    const RendezvousState before = state;
    add_spare(state, node("b"), now);
    remove_node(state, node("b"), bounds);
    remove_node(state, node("stranger"), bounds);
    EXPECT_EQ(state, before);
}

TEST(MembershipEdits, RandomChangesKeepWhatTorchsAgentsRelyOn) {
    for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
        std::mt19937_64 random(seed);
        const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
        const int min = pick(1, 3);
        const RoundLimits bounds = limits(min, min + pick(0, 3));
        RendezvousState state;
        std::string story;
        for (int step = 0; step < 40; ++step) {
            const NodeId who = node(fmt::format("n{}", pick(0, 7)));
            const std::int64_t round = state.round;
            switch (pick(0, 5)) {
                case 0:
                    remove_node(state, who, bounds);
                    story += "remove ";
                    break;
                case 1:
                    // As the machine does: only while the round is formed, has room, and the node is not in it.
                    if (state.complete || state.participants.contains(who) ||
                        static_cast<int>(state.participants.size()) >= bounds.max_nodes)
                        continue;
                    add_participant(state, who, now, bounds);
                    story += "add ";
                    break;
                case 2:
                    if (state.participants.contains(who)) continue;
                    add_waiting(state, who, now);
                    story += "wait ";
                    break;
                case 3:
                    if (state.participants.contains(who)) continue;
                    add_spare(state, who, now);
                    story += "spare ";
                    break;
                default: {
                    if (state.complete || static_cast<int>(state.participants.size()) < bounds.min_nodes) continue;
                    WantedRanks wanted;
                    for (int wish = pick(0, 4); wish > 0; --wish)
                        wanted[node(fmt::format("n{}", pick(0, 7)))] = pick(-1, 5);
                    complete_round(state, wanted, bounds);
                    story += "complete ";
                    std::set<std::int64_t> ranks;
                    for (const auto& [member, rank] : state.participants) ranks.insert(rank);
                    ASSERT_EQ(ranks.size(), state.participants.size()) << story;
                    ASSERT_EQ(*ranks.begin(), 0) << story;
                    ASSERT_EQ(*ranks.rbegin(), static_cast<std::int64_t>(ranks.size()) - 1) << story;
                }
            }
            story += who.addr + ", ";
            ASSERT_EQ(unsound(state, bounds), "") << story;
            ASSERT_GE(state.round, round) << story;
        }
    }
}

}  // namespace
}  // namespace cpprun
