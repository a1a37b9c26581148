// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/liveness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cpprun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

const NodeId a{"a", 1, 0};
const NodeId b{"b", 2, 0};
const WallTime epoch{seconds(1'700'000'000)};
constexpr seconds expiry{15};

/// `wall_ahead`: how much our wall clock has been set ahead by now.
Moment at(milliseconds steady, milliseconds wall_ahead = {}) {
    return {steady, epoch + steady + wall_ahead};
}

RendezvousState with(std::map<NodeId, WallTime> heartbeats) {
    RendezvousState state;
    state.last_heartbeats = std::move(heartbeats);
    return state;
}

TEST(Liveness, ANodeDiesWhenItsHeartbeatHasNotChangedForLong) {
    Liveness liveness(expiry);
    liveness.observe(with({{a, epoch}}), at(seconds(1)));
    EXPECT_FALSE(liveness.dead(a, at(milliseconds(15'999))));
    EXPECT_TRUE(liveness.dead(a, at(seconds(16))));
    EXPECT_EQ(liveness.next_death(), seconds(16));
}

TEST(Liveness, ALookAtTheSameHeartbeatIsNoSignOfLife) {
    Liveness liveness(expiry);
    for (int second = 1; second <= 15; ++second) liveness.observe(with({{a, epoch}}), at(seconds(second)));
    EXPECT_TRUE(liveness.dead(a, at(seconds(16))));
    liveness.observe(with({{a, epoch + milliseconds(1)}}), at(seconds(16)));
    EXPECT_FALSE(liveness.dead(a, at(seconds(30))));
    EXPECT_TRUE(liveness.dead(a, at(seconds(31))));
}

TEST(Liveness, AHeartbeatThatGoesBackIsASignOfLifeToo) {
    Liveness liveness(expiry);
    liveness.observe(with({{a, epoch}}), at(seconds(1)));
    liveness.observe(with({{a, epoch - seconds(3'600)}}), at(seconds(10)));
    EXPECT_FALSE(liveness.dead(a, at(seconds(24))));
}

TEST(Liveness, ClocksFarApartKillNobody) {
    for (const auto skew : {seconds(-86'400), seconds(86'400)}) {
        Liveness liveness(expiry);
        for (int second = 0; second < 100; second += 5) {
            liveness.observe(with({{a, epoch + seconds(second) + skew}}), at(seconds(second)));
            EXPECT_FALSE(liveness.dead(a, at(seconds(second + 4))));
        }
    }
}

TEST(Liveness, OurOwnClockSetBackOrAheadKillsNobodyAndSavesNobody) {
    for (const auto step : {seconds(-3'600), seconds(3'600)}) {
        Liveness liveness(expiry);
        liveness.observe_clock(at(seconds(0)));
        liveness.observe(with({{a, epoch}}), at(seconds(0)));
        EXPECT_FALSE(liveness.dead(a, at(seconds(14), step)));
        EXPECT_TRUE(liveness.dead(a, at(seconds(15), step)));
    }
}

TEST(Liveness, ANodeThatNobodyKnowsIsNotDead) {
    Liveness liveness(expiry);
    EXPECT_FALSE(liveness.dead(a, at(seconds(1'000))));
    EXPECT_EQ(liveness.next_death(), std::nullopt);
}

TEST(Liveness, ANodeThatWasAwayBeginsAnew) {
    Liveness liveness(expiry);
    liveness.observe(with({{a, epoch}}), at(seconds(0)));
    liveness.observe(with({}), at(seconds(14)));
    EXPECT_FALSE(liveness.dead(a, at(seconds(20))));
    EXPECT_EQ(liveness.next_death(), std::nullopt);
    liveness.observe(with({{a, epoch}}), at(seconds(20)));
    EXPECT_FALSE(liveness.dead(a, at(seconds(34))));
    EXPECT_TRUE(liveness.dead(a, at(seconds(35))));
}

TEST(Liveness, EvidenceKillsAtOnceAndUntilTheNodeWasOut) {
    Liveness liveness(expiry);
    liveness.observe(with({{a, epoch}, {b, epoch}}), at(seconds(0)));
    liveness.node_gone(a);
    EXPECT_TRUE(liveness.dead(a, at(seconds(0))));
    EXPECT_FALSE(liveness.dead(b, at(seconds(0))));
    liveness.observe(with({{a, epoch + seconds(1)}}), at(seconds(1)));
    EXPECT_TRUE(liveness.dead(a, at(seconds(1)))) << "a heartbeat that was on its way proves nothing";
    liveness.observe(with({{b, epoch}}), at(seconds(2)));
    liveness.observe(with({{a, epoch + seconds(3)}}), at(seconds(3)));
    EXPECT_FALSE(liveness.dead(a, at(seconds(3))));
}

TEST(Liveness, TheNextDeathIsTheEarliest) {
    Liveness liveness(expiry);
    liveness.observe(with({{a, epoch}}), at(seconds(1)));
    liveness.observe(with({{a, epoch}, {b, epoch}}), at(seconds(4)));
    EXPECT_EQ(liveness.next_death(), seconds(16));
    liveness.observe(with({{a, epoch + seconds(1)}, {b, epoch}}), at(seconds(6)));
    EXPECT_EQ(liveness.next_death(), seconds(19));
}

TEST(GroupTime, IsOurClockAsLongAsNobodyIsAhead) {
    Liveness liveness(expiry);
    EXPECT_EQ(liveness.group_time(at(seconds(3))), epoch + seconds(3));
    liveness.observe_clock(at(seconds(3)));
    liveness.observe(with({{a, epoch - seconds(100)}}), at(seconds(4)));
    EXPECT_EQ(liveness.group_time(at(seconds(5))), epoch + seconds(5));
}

TEST(GroupTime, IsThatOfThePeerWhoseClockIsAhead) {
    Liveness liveness(expiry);
    liveness.observe_clock(at(seconds(0)));
    liveness.observe(with({{a, epoch + seconds(60)}}), at(seconds(0)));
    EXPECT_EQ(liveness.group_time(at(seconds(7))), epoch + seconds(67));
    liveness.observe(with({}), at(seconds(8)));
    EXPECT_EQ(liveness.group_time(at(seconds(9))), epoch + seconds(69)) << "also when the peer has gone";
}

TEST(GroupTime, NeverGoesBackWithOurClock) {
    Liveness liveness(expiry);
    liveness.observe_clock(at(seconds(10)));
    liveness.observe_clock(at(seconds(11), seconds(-3'600)));
    EXPECT_EQ(liveness.group_time(at(seconds(12), seconds(-3'600))), epoch + seconds(12));
    liveness.observe_clock(at(seconds(13), seconds(3'600)));
    EXPECT_EQ(liveness.group_time(at(seconds(14))), epoch + seconds(3'614));
}

TEST(Skew, IsToldOnceForEachNode) {
    Liveness liveness(expiry);
    liveness.observe(with({{a, epoch + seconds(30)}, {b, epoch + seconds(1)}}), at(seconds(0)));
    EXPECT_THAT(liveness.take_skewed(seconds(2)), ElementsAre(Pair(a, seconds(30))));
    liveness.observe(with({{a, epoch + seconds(31)}, {b, epoch + seconds(2)}}), at(seconds(1)));
    EXPECT_THAT(liveness.take_skewed(seconds(2)), IsEmpty());
}

TEST(Skew, AnOldHeartbeatIsNoClockThatIsBehind) {
    Liveness liveness(expiry);
    liveness.observe(with({{a, epoch - seconds(30)}}), at(seconds(0)));
    EXPECT_THAT(liveness.take_skewed(seconds(2)), IsEmpty());
    liveness.observe(with({{a, epoch - seconds(25)}}), at(seconds(5)));
    EXPECT_THAT(liveness.take_skewed(seconds(2)), ElementsAre(Pair(a, seconds(-30))));
}

}  // namespace
}  // namespace cpprun
