// SPDX-License-Identifier: BSD-3-Clause
// Single decisions of the machine; what many of them amount to is in tests/simulation.
#include "core/rendezvous/membership_machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <variant>

namespace cpprun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const WallTime epoch{seconds(1'700'000'000)};
const NodeId me{"me", 1, 0};
const NodeId other{"other", 2, 0};
const NodeId third{"third", 3, 0};

MembershipSettings settings(int min, int max) {
    MembershipSettings made;
    made.limits = {min, max, seconds(3)};
    return made;
}

/// One machine and a store that answers at once, unless it is silent. Others change the store by hand.
class Rig {
  public:
    explicit Rig(MembershipSettings given) : limits(given.limits), machine(given) {}

    void feed(const MembershipEvent& event) {
        events.push_back(event);
        if (busy) return;
        busy = true;
        // What a command is answered comes after all commands of the question.
        while (!events.empty()) obey(machine.handle(std::exchange(events, {}), moment()));
        busy = false;
    }
    void join(std::optional<std::int64_t> rank = {}) { feed(JoinWish{me, rank}); }

    /// Somebody else writes, and the machine hears of it.
    void change(const std::function<void(RendezvousState&)>& edit) {
        RendezvousState state = store.value_or(RendezvousState{});
        edit(state);
        store = state;
        ++version;
        feed(StateChanged{});
    }
    void join_other(const NodeId& node) {
        change([&](RendezvousState& state) { add_participant(state, node, epoch + now, limits); });
    }
    /// A beat of somebody else's.
    void beat_other(const NodeId& node) {
        change([&](RendezvousState& state) { state.last_heartbeats[node] = epoch + now; });
    }

    void advance(milliseconds time) {
        const milliseconds end = now + time;
        while (wake && *wake <= end) {
            now = std::max(now, *wake);
            wake.reset();
            feed(TimeCame{});
        }
        now = end;
    }

    template <class T>
    std::vector<T> take() {
        std::vector<T> found;
        std::erase_if(heard, [&](const MembershipCommand& command) {
            const T* wanted = std::get_if<T>(&command);
            if (wanted != nullptr) found.push_back(*wanted);
            return wanted != nullptr;
        });
        return found;
    }

    Moment moment() const { return {now, epoch + now}; }

    RoundLimits limits;
    MembershipMachine machine;
    std::optional<RendezvousState> store;
    int version = 0;
    int seen = -1;  ///< the version that the machine's next swap is against
    bool silent = false;
    bool lose_answers = false;
    milliseconds now{0};
    std::optional<milliseconds> wake;
    std::vector<MembershipCommand> heard;
    int swaps = 0;
    int asked_in_silence = 0;

  private:
    std::vector<MembershipEvent> events;
    bool busy = false;

    void obey(const std::vector<MembershipCommand>& commands) {
        for (const MembershipCommand& command : commands) {
            if (const auto* at = std::get_if<WakeAt>(&command)) {
                wake = at->steady;
            } else if (std::holds_alternative<ReadState>(command)) {
                if (silent) {
                    ++asked_in_silence;
                    continue;
                }
                seen = version;
                feed(StateSeen{store});
            } else if (const auto* swap = std::get_if<SwapState>(&command)) {
                if (silent) {
                    ++asked_in_silence;
                    continue;
                }
                ++swaps;
                const bool taken = seen == version;
                if (taken) {
                    store = swap->desired;
                    ++version;
                }
                if (lose_answers) continue;
                seen = version;
                feed(SwapAnswered{taken, store});
            } else {
                heard.push_back(command);
            }
        }
    }
};

/// A rig whose node runs in round 0, alone or with these others.
Rig running(MembershipSettings given, const std::vector<NodeId>& others = {}) {
    Rig rig(given);
    for (const NodeId& node : others) rig.join_other(node);
    rig.join();
    if (rig.take<RoundFormed>().empty()) {
        rig.advance(seconds(3));
        EXPECT_TRUE(rig.store->complete);
    }
    rig.heard.clear();
    return rig;
}

TEST(Joining, TheNodeThatFillsTheRoundCompletesItAtOnce) {
    Rig rig(settings(2, 2));
    rig.join_other(other);
    rig.join();
    const auto formed = rig.take<RoundFormed>();
    ASSERT_EQ(formed.size(), 1U);
    EXPECT_EQ(formed[0].node, me);
    EXPECT_EQ(formed[0].rank, 0);
    EXPECT_THAT(formed[0].members->by_rank, ElementsAre(me, other));
    EXPECT_EQ(rig.now, milliseconds(0));
}

TEST(Joining, OneChangeCarriesAllNodesThatAMachineSpeaksFor) {
    Rig rig(settings(3, 3));
    std::vector<MembershipEvent> wishes{JoinWish{me}, JoinWish{other}, JoinWish{third}};
    const auto first = rig.machine.handle(wishes, rig.moment());
    ASSERT_FALSE(first.empty());
    ASSERT_TRUE(std::holds_alternative<ReadState>(first[0])) << "a look first";
    rig.seen = rig.version;
    rig.feed(StateSeen{});
    EXPECT_EQ(rig.swaps, 1);
    EXPECT_EQ(rig.take<RoundFormed>().size(), 3U);
}

TEST(LastCall, ARoundThatIsNotFullWaitsForItsEnd) {
    Rig rig(settings(1, 3));
    rig.join();
    rig.advance(milliseconds(2'999));
    EXPECT_FALSE(rig.store->complete);
    EXPECT_EQ(rig.machine.progress(me, rig.moment()).last_call, milliseconds(1));
    rig.advance(milliseconds(1));
    EXPECT_TRUE(rig.store->complete);
    EXPECT_EQ(rig.take<RoundFormed>().size(), 1U);
}

TEST(LastCall, OfZeroLetsNobodyWait) {
    MembershipSettings given = settings(1, 3);
    given.limits.last_call = milliseconds(0);
    Rig rig(given);
    rig.join();
    EXPECT_EQ(rig.take<RoundFormed>().size(), 1U);
}

TEST(LastCall, IsMeasuredByOurOwnClockFromWhenItIsSeen) {
    Rig rig(settings(2, 3));
    // The other's clock is an hour ahead.
    rig.change([&](RendezvousState& state) { add_participant(state, other, epoch + seconds(3'600), rig.limits); });
    rig.join();
    rig.advance(milliseconds(2'900));
    EXPECT_FALSE(rig.store->complete);
    rig.advance(milliseconds(200));
    EXPECT_TRUE(rig.store->complete);
}

TEST(LastCall, IsNotCutShortByAClockOfOursThatIsAhead) {
    Rig rig(settings(1, 3));
    rig.change([&](RendezvousState& state) { add_participant(state, other, epoch - seconds(3'600), rig.limits); });
    rig.join();
    rig.advance(milliseconds(2'900));
    EXPECT_FALSE(rig.store->complete);
    rig.advance(milliseconds(200));
    EXPECT_TRUE(rig.store->complete);
}

TEST(LastCall, IsNeverLongerThanOurOwnSetting) {
    Rig rig(settings(1, 3));
    rig.change([&](RendezvousState& state) {
        add_participant(state, other, epoch, rig.limits);
        state.deadline = epoch + seconds(86'400);
    });
    rig.join();
    rig.advance(seconds(3));
    EXPECT_TRUE(rig.store->complete);
}

TEST(LastCall, BeginsWhenOthersHaveLeftItOut) {
    Rig rig(settings(1, 3));
    rig.change([&](RendezvousState& state) {
        state.participants[other] = 0;
        state.last_heartbeats[other] = epoch;
    });
    rig.join();
    ASSERT_TRUE(rig.store->deadline);
    EXPECT_EQ(*rig.store->deadline, epoch + seconds(3));
    rig.advance(seconds(3));
    EXPECT_TRUE(rig.store->complete);
}

TEST(LastCall, EndsWithWhoLeavesAndBeginsAgainInFull) {
    Rig rig(settings(2, 3));
    rig.join();
    rig.join_other(other);
    rig.advance(seconds(2));
    rig.change([&](RendezvousState& state) { remove_node(state, other, rig.limits); });
    EXPECT_EQ(rig.store->deadline, std::nullopt);
    rig.advance(seconds(2));
    EXPECT_FALSE(rig.store->complete);
    rig.join_other(third);
    rig.advance(milliseconds(2'900));
    EXPECT_FALSE(rig.store->complete);
    rig.advance(milliseconds(200));
    EXPECT_TRUE(rig.store->complete);
}

TEST(JoinTimeOut, TellsTheNodeAndTakesItOut) {
    MembershipSettings given = settings(2, 2);
    given.join_timeout = seconds(60);
    Rig rig(given);
    rig.join();
    EXPECT_EQ(rig.machine.progress(me, rig.moment()).gives_up_in, seconds(60));
    rig.advance(milliseconds(59'999));
    EXPECT_THAT(rig.take<JoinEnded>(), IsEmpty());
    rig.advance(milliseconds(1));
    const auto ended = rig.take<JoinEnded>();
    ASSERT_EQ(ended.size(), 1U);
    EXPECT_EQ(ended[0].why, JoinEnded::Why::timed_out);
    EXPECT_TRUE(rig.store->participants.empty());
    EXPECT_FALSE(rig.store->closed) << "a node that gives up does not end the run of the others";
    rig.advance(seconds(600));
    EXPECT_THAT(rig.heard, IsEmpty());
}

TEST(JoinTimeOut, DoesNotCountForASpare) {
    MembershipSettings given = settings(1, 1);
    given.limits = {1, 2, seconds(3)};
    given.join_timeout = seconds(60);
    Rig rig(given);
    rig.join_other(other);
    rig.join_other(third);
    rig.change([&](RendezvousState& state) { complete_round(state, {}, rig.limits); });
    rig.join();
    EXPECT_TRUE(rig.store->redundancy_list.contains(me));
    EXPECT_TRUE(rig.machine.progress(me, rig.moment()).spare);
    for (int i = 0; i < 200; ++i) {
        rig.advance(seconds(5));
        rig.beat_other(other);
        rig.beat_other(third);
    }
    EXPECT_THAT(rig.take<JoinEnded>(), IsEmpty());
    rig.change([](RendezvousState& state) { state.closed = true; });
    const auto ended = rig.take<JoinEnded>();
    ASSERT_EQ(ended.size(), 1U);
    EXPECT_EQ(ended[0].why, JoinEnded::Why::spare_ended);
}

TEST(JoinTimeOut, IsThatOfTheLatestWish) {
    MembershipSettings given = settings(2, 2);
    given.join_timeout = seconds(60);
    Rig rig(given);
    rig.join();
    rig.advance(seconds(50));
    rig.join();
    rig.advance(seconds(50));
    EXPECT_THAT(rig.take<JoinEnded>(), IsEmpty());
}

TEST(Joining, AWishThatHasCrossedTheRoundItWantsIsGranted) {
    Rig rig = running(settings(1, 2), {other});
    rig.feed(NodeGone{other});
    rig.feed(JoinWish{me, {}, 0});
    rig.advance(seconds(4));
    ASSERT_EQ(rig.take<RoundFormed>().size(), 1U);
    rig.take<RestartNeeded>();
    // The agent had not heard of that round when it wished again.
    rig.feed(JoinWish{me, {}, 0});
    rig.advance(seconds(10));
    EXPECT_EQ(rig.store->round, 1);
    EXPECT_THAT(rig.take<RoundFormed>(), IsEmpty());
    rig.feed(JoinWish{me, {}, 1});
    rig.advance(seconds(4));
    EXPECT_EQ(rig.store->round, 2);
    EXPECT_EQ(rig.take<RoundFormed>().size(), 1U);
}

TEST(Joining, AClosedRunTakesNobody) {
    Rig rig(settings(1, 2));
    rig.change([](RendezvousState& state) { state.closed = true; });
    rig.join();
    const auto ended = rig.take<JoinEnded>();
    ASSERT_EQ(ended.size(), 1U);
    EXPECT_EQ(ended[0].why, JoinEnded::Why::closed);
    EXPECT_TRUE(rig.store->participants.empty());
}

TEST(Joining, WhereWorkersRunTheNewcomerWaitsAndTheMembersHearOfIt) {
    Rig newcomer(settings(1, 2));
    newcomer.join_other(other);
    newcomer.change([&](RendezvousState& state) { complete_round(state, {}, newcomer.limits); });
    newcomer.join();
    EXPECT_TRUE(newcomer.store->wait_list.contains(me));
    EXPECT_TRUE(newcomer.machine.progress(me, newcomer.moment()).waiting);

    Rig member = running(settings(1, 2));
    member.change([&](RendezvousState& state) { add_waiting(state, third, epoch + member.now); });
    const auto restart = member.take<RestartNeeded>();
    ASSERT_EQ(restart.size(), 1U);
    EXPECT_EQ(restart[0].why, RestartNeeded::Why::newcomers);
    EXPECT_THAT(restart[0].nodes, ElementsAre(third));
    member.advance(seconds(10));
    EXPECT_THAT(member.take<RestartNeeded>(), IsEmpty()) << "told once";
}

/// Lets a newcomer end the round that runs. Returns how long the members were left in peace.
milliseconds newcomer_ends_round(Rig& rig, const NodeId& newcomer) {
    const milliseconds begin = rig.now;
    rig.change([&](RendezvousState& state) { add_waiting(state, newcomer, epoch + rig.now); });
    while (rig.take<RestartNeeded>().empty() && rig.now - begin < seconds(120)) {
        rig.advance(milliseconds(100));
        if ((rig.now - begin) % seconds(5) == milliseconds(0)) rig.beat_other(newcomer);
    }
    const milliseconds took = rig.now - begin;
    rig.join();
    rig.change([&](RendezvousState& state) { remove_node(state, newcomer, rig.limits); });
    while (rig.take<RoundFormed>().empty() && rig.now - begin < seconds(240)) rig.advance(milliseconds(100));
    return took;
}

TEST(HoldBack, EachNewcomerAfterAShortRoundWaitsLongerUpToABound) {
    Rig rig = running(settings(1, 3));
    std::vector<milliseconds> waits;
    for (int i = 0; i < 9; ++i) waits.push_back(newcomer_ends_round(rig, {"flapping", 100 + i, 0}));
    EXPECT_LE(waits[0], milliseconds(100));
    for (std::size_t i = 1; i < waits.size(); ++i) EXPECT_GE(waits[i] + milliseconds(100), waits[i - 1]);
    // Of 32 s from the newcomer before, the last call of the round in between, 3 s, is over already.
    EXPECT_GE(waits.back(), seconds(28));
    EXPECT_LE(waits.back(), seconds(30));
}

TEST(HoldBack, IsSaidOnceForEachWhile) {
    Rig rig = running(settings(1, 3));
    for (int i = 0; i < 4; ++i) newcomer_ends_round(rig, {"flapping", 100 + i, 0});
    const auto told = rig.take<NewcomersHeldBack>();
    ASSERT_GE(told.size(), 1U);
    ASSERT_LE(told.size(), 3U) << "the first newcomer is let in at once";
    EXPECT_EQ(told.back().short_rounds, 3);
    EXPECT_THAT(told.back().nodes, ElementsAre(NodeId{"flapping", 103, 0}));
    EXPECT_GT(told.back().wait, milliseconds(0));
    EXPECT_LE(told.back().wait, seconds(4));
}

TEST(HoldBack, ARoundOfAMinuteMakesItGood) {
    Rig rig = running(settings(1, 3));
    for (int i = 0; i < 6; ++i) newcomer_ends_round(rig, {"flapping", 100 + i, 0});
    rig.advance(seconds(90));
    EXPECT_LE(newcomer_ends_round(rig, {"late", 1, 0}), milliseconds(100));
    EXPECT_LE(newcomer_ends_round(rig, {"later", 1, 0}), milliseconds(100)) << "the first short one again";
}

TEST(HoldBack, AMemberThatWaitsIsNotHeldBack) {
    Rig rig = running(settings(1, 3), {other, third});
    for (int i = 0; i < 3; ++i) {
        rig.change([&](RendezvousState& state) {
            remove_node(state, other, rig.limits);
            add_waiting(state, other, epoch + rig.now);
        });
        ASSERT_EQ(rig.take<RestartNeeded>().size(), 1U) << i;
        rig.join();
        rig.change([&](RendezvousState& state) {
            remove_node(state, third, rig.limits);
            add_participant(state, third, epoch + rig.now, rig.limits);
            add_participant(state, other, epoch + rig.now, rig.limits);
        });
        for (int tries = 0; tries < 50 && rig.take<RoundFormed>().empty(); ++tries) rig.advance(milliseconds(100));
        ASSERT_TRUE(rig.store->complete) << i;
    }
}

TEST(Losses, AMemberThatIsGoneHasAGraceToComeBack) {
    Rig rig = running(settings(1, 2), {other});
    rig.change([&](RendezvousState& state) { remove_node(state, other, rig.limits); });
    rig.advance(milliseconds(900));
    EXPECT_THAT(rig.take<RestartNeeded>(), IsEmpty());
    rig.advance(milliseconds(200));
    const auto restart = rig.take<RestartNeeded>();
    ASSERT_EQ(restart.size(), 1U);
    EXPECT_EQ(restart[0].why, RestartNeeded::Why::lost);
    EXPECT_THAT(restart[0].nodes, ElementsAre(other));
}

TEST(Losses, AMemberThatIsBackInTimeCountsAsNeverGone) {
    Rig rig = running(settings(1, 2), {other});
    rig.change([&](RendezvousState& state) { remove_node(state, other, rig.limits); });
    rig.advance(milliseconds(900));
    rig.change([&](RendezvousState& state) {
        state.participants[other] = 1;
        state.last_heartbeats[other] = epoch + rig.now;
    });
    rig.advance(seconds(2));
    EXPECT_THAT(rig.take<RestartNeeded>(), IsEmpty());
    rig.change([&](RendezvousState& state) { remove_node(state, other, rig.limits); });
    rig.advance(milliseconds(900));
    EXPECT_THAT(rig.take<RestartNeeded>(), IsEmpty()) << "the grace begins anew";
}

TEST(Losses, EvidenceNeedsNoGrace) {
    Rig rig = running(settings(1, 2), {other});
    rig.feed(NodeGone{other});
    const auto restart = rig.take<RestartNeeded>();
    ASSERT_EQ(restart.size(), 1U);
    EXPECT_EQ(restart[0].why, RestartNeeded::Why::lost);
    EXPECT_FALSE(rig.store->participants.contains(other)) << "and the others learn of it";
}

TEST(Losses, ADeadNodeIsTakenOutAfterItsTime) {
    Rig rig = running(settings(1, 2), {other});
    rig.advance(milliseconds(14'900));
    EXPECT_TRUE(rig.store->participants.contains(other));
    rig.advance(milliseconds(200));
    EXPECT_FALSE(rig.store->participants.contains(other));
    EXPECT_EQ(rig.take<RestartNeeded>().size(), 1U);
}

TEST(StayWish, KeepsTheNodeInItsRound) {
    Rig rig = running(settings(1, 3), {other, third});
    rig.change([&](RendezvousState& state) { remove_node(state, other, rig.limits); });
    rig.advance(seconds(2));
    ASSERT_EQ(rig.take<RestartNeeded>().size(), 1U);
    rig.feed(StayWish{me, {other}});
    rig.beat_other(third);
    rig.advance(seconds(4));
    EXPECT_THAT(rig.take<RestartNeeded>(), IsEmpty());
    EXPECT_TRUE(rig.store->participants.contains(me));
    rig.change([&](RendezvousState& state) { remove_node(state, third, rig.limits); });
    rig.advance(seconds(2));
    const auto restart = rig.take<RestartNeeded>();
    ASSERT_EQ(restart.size(), 1U);
    EXPECT_THAT(restart[0].nodes, ElementsAre(third)) << "the excused one is not named again";
}

TEST(StayWish, ThatComesTooLateChangesNothing) {
    Rig rig = running(settings(1, 2), {other});
    rig.feed(NodeGone{other});
    rig.join();  // the agent has decided to restart
    rig.feed(StayWish{me, {other}});
    rig.advance(seconds(4));
    EXPECT_EQ(rig.take<RoundFormed>().size(), 1U) << "it still wants the next round";
    rig.feed(StayWish{third, {other}});
}

TEST(Reinstated, ALivingMemberThatOthersTookOutPutsItselfBack) {
    Rig rig = running(settings(1, 2), {other});
    rig.change([&](RendezvousState& state) { remove_node(state, me, rig.limits); });
    EXPECT_EQ(rig.take<Reinstated>().size(), 1U);
    EXPECT_EQ(rig.store->participants.at(me), 0) << "with its rank";
    EXPECT_TRUE(rig.store->last_heartbeats.contains(me));
    EXPECT_THAT(rig.take<RestartNeeded>(), IsEmpty());
    rig.change([&](RendezvousState& state) { remove_node(state, me, rig.limits); });
    EXPECT_EQ(rig.take<Reinstated>().size(), 1U) << "each time";
}

TEST(Reinstated, NotIntoALaterRoundAndNotWhereItsSeatIsTaken) {
    Rig rig = running(settings(1, 2), {other});
    rig.change([&](RendezvousState& state) {
        state.round = 1;
        state.participants = {{other, 0}};
        state.last_heartbeats.erase(me);
    });
    auto restart = rig.take<RestartNeeded>();
    ASSERT_EQ(restart.size(), 1U);
    EXPECT_EQ(restart[0].why, RestartNeeded::Why::left_out);
    EXPECT_THAT(rig.take<Reinstated>(), IsEmpty());

    Rig full = running(settings(1, 2), {other});
    full.change([&](RendezvousState& state) {
        remove_node(state, me, full.limits);
        state.participants[third] = 0;
        state.last_heartbeats[third] = epoch + full.now;
    });
    restart = full.take<RestartNeeded>();
    ASSERT_EQ(restart.size(), 1U);
    EXPECT_EQ(restart[0].why, RestartNeeded::Why::left_out);
    EXPECT_FALSE(full.store->participants.contains(me));
}

TEST(Fence, IsDueOnceWhenNoHeartbeatCouldBeWritten) {
    Rig rig = running(settings(1, 2), {other});
    const milliseconds last = *rig.machine.last_heartbeat(me);
    rig.silent = true;
    for (int i = 0; i < 300; ++i) {
        rig.advance(milliseconds(100));
        if (rig.asked_in_silence > 0) {
            rig.asked_in_silence = 0;
            rig.feed(StoreSilent{});
        }
        if (rig.now - last < seconds(10)) EXPECT_THAT(rig.take<FenceDue>(), IsEmpty()) << rig.now.count();
    }
    EXPECT_EQ(rig.take<FenceDue>().size(), 1U);
}

TEST(Fence, IsDueAlsoWhenTheStoreNeverAnswers) {
    Rig rig = running(settings(1, 2), {other});
    rig.silent = true;
    rig.feed(StateChanged{});
    rig.advance(seconds(11));
    EXPECT_EQ(rig.take<FenceDue>().size(), 1U);
}

TEST(Fence, IsNotDueWhenOnlyTheAnswersWereLost) {
    Rig rig(settings(1, 2));
    rig.now = seconds(1'000);
    rig.join_other(other);
    rig.silent = true;
    rig.join();
    // The change that completes the round is made, and its answer lost.
    rig.silent = false;
    rig.asked_in_silence = 0;
    rig.lose_answers = true;
    rig.seen = rig.version;
    rig.feed(StateSeen{rig.store});
    ASSERT_TRUE(rig.store->complete);
    rig.lose_answers = false;
    rig.now += seconds(3);
    rig.feed(StoreSilent{});
    rig.advance(seconds(1));
    EXPECT_EQ(rig.take<RoundFormed>().size(), 1U);
    EXPECT_THAT(rig.take<FenceDue>(), IsEmpty());
    EXPECT_GE(*rig.machine.last_heartbeat(me), seconds(1'000));
}

TEST(Fence, GuardsEachRoundAnew) {
    Rig rig = running(settings(1, 2), {other});
    for (int i = 0; i < 2; ++i) {
        rig.silent = true;
        rig.feed(StateChanged{});
        rig.advance(seconds(11));
        ASSERT_EQ(rig.take<FenceDue>().size(), 1U) << i;
        rig.silent = false;
        rig.feed(StoreSilent{});
        rig.join();
        for (int tries = 0; tries < 100 && rig.take<RoundFormed>().empty(); ++tries) {
            rig.advance(milliseconds(200));
            if (rig.store->complete || rig.store->participants.contains(other)) continue;
            rig.join_other(other);
        }
        ASSERT_TRUE(rig.store->complete) << i;
    }
}

TEST(Fence, HasNoMeaningInAJobOfOneNode) {
    Rig rig = running(settings(1, 1));
    rig.silent = true;
    rig.feed(StateChanged{});
    rig.advance(seconds(60));
    EXPECT_THAT(rig.take<FenceDue>(), IsEmpty());
}

TEST(StaleAnswers, DecideNothing) {
    Rig rig = running(settings(1, 3), {other});
    rig.silent = true;
    rig.feed(StateChanged{});
    ASSERT_EQ(rig.asked_in_silence, 1);
    // The process stands still; meanwhile the state that it asked for became the past.
    rig.now += seconds(30);
    RendezvousState past = *rig.store;
    add_waiting(past, third, epoch);
    rig.feed(StateSeen{past});
    EXPECT_EQ(rig.asked_in_silence, 2) << "it asks again";
    EXPECT_THAT(rig.take<RestartNeeded>(), IsEmpty());
}

TEST(StaleAnswers, OfASwapDecideNothingEither) {
    Rig rig(settings(1, 3));
    rig.silent = true;
    rig.join();
    rig.silent = false;
    rig.seen = rig.version;
    rig.silent = true;
    rig.feed(StateSeen{});
    ASSERT_EQ(rig.asked_in_silence, 2);
    rig.now += seconds(60);
    RendezvousState complete;
    add_participant(complete, me, epoch, rig.limits);
    complete_round(complete, {}, rig.limits);
    rig.feed(SwapAnswered{true, complete});
    EXPECT_THAT(rig.take<RoundFormed>(), IsEmpty()) << "that round may be over long since";
    EXPECT_EQ(rig.asked_in_silence, 3);
}

TEST(RankWishes, ThatContradictEachOtherAreNamedOnceARound) {
    Rig rig(settings(2, 2));
    rig.feed(RanksWanted{{{other, 0}}});
    rig.join(0);
    // Two tries to complete the round: the first is lost, as somebody else wrote in between.
    rig.change([&](RendezvousState& state) { add_participant(state, other, epoch, rig.limits); });
    rig.advance(seconds(1));
    auto ignored = rig.take<RankWishesIgnored>();
    ASSERT_EQ(ignored.size(), 1U);
    EXPECT_THAT(ignored[0].problems, ElementsAre(HasSubstr("node rank 0 is wanted by")));
    ASSERT_TRUE(rig.store->complete);
    EXPECT_EQ(rig.store->participants.at(me), 0) << "the usual order";
    rig.take<RoundFormed>();
    rig.change([&](RendezvousState& state) { remove_node(state, other, rig.limits); });
    rig.join();
    rig.advance(seconds(1));
    rig.join_other(other);
    rig.advance(seconds(4));
    ASSERT_TRUE(rig.store->complete);
    EXPECT_EQ(rig.take<RankWishesIgnored>().size(), 1U) << "once more in the next round";
}

TEST(RankWishes, AreHonouredByWhoCompletesTheRound) {
    Rig rig(settings(2, 2));
    rig.feed(RanksWanted{{{other, 0}}});
    rig.join_other(other);
    rig.join(1);
    const auto formed = rig.take<RoundFormed>();
    ASSERT_EQ(formed.size(), 1U);
    EXPECT_EQ(formed[0].rank, 1);
    EXPECT_THAT(rig.take<RankWishesIgnored>(), IsEmpty());
}

TEST(Races, AreTriedAgainAfterAPauseThatStaysShort) {
    Rig rig(settings(1, 2));
    rig.silent = true;
    rig.join();
    rig.feed(StateSeen{});
    for (int lost = 0; lost < 100; ++lost) {
        ASSERT_GE(rig.asked_in_silence, 1);
        rig.asked_in_silence = 0;
        RendezvousState theirs;
        theirs.last_heartbeats[other] = epoch + milliseconds(lost);
        theirs.participants[other] = 0;
        rig.feed(SwapAnswered{false, theirs});
        const milliseconds begin = rig.now;
        while (rig.asked_in_silence == 0 && rig.now - begin < seconds(1)) rig.advance(milliseconds(1));
        ASSERT_LE(rig.now - begin, milliseconds(260)) << lost;
    }
}

TEST(Close, EndsTheRunForAll) {
    Rig rig = running(settings(1, 2), {other});
    rig.feed(CloseWish{});
    EXPECT_TRUE(rig.store->closed);
    EXPECT_EQ(rig.take<RunClosed>().size(), 1U);
    EXPECT_TRUE(rig.store->complete) << "nothing else changes";
}

TEST(Close, WorksForWhoWasNeverAMember) {
    Rig rig(settings(1, 2));
    rig.feed(CloseWish{});
    ASSERT_TRUE(rig.store);
    EXPECT_TRUE(rig.store->closed);
}

TEST(Leaving, TakesTheNodeOutWithoutClosing) {
    Rig rig = running(settings(1, 2), {other});
    rig.feed(LeaveWish{me});
    EXPECT_FALSE(rig.store->closed);
    EXPECT_FALSE(rig.store->participants.contains(me));
    EXPECT_TRUE(rig.store->participants.contains(other));
    EXPECT_EQ(rig.machine.last_heartbeat(me), std::nullopt);
    const int swaps = rig.swaps;
    rig.advance(seconds(60));
    EXPECT_EQ(rig.swaps, swaps) << "and is at peace";
}

TEST(Heartbeats, AreWrittenWellBeforeTheIntervalIsOverAndAreAlwaysNew) {
    Rig rig = running(settings(1, 2), {other});
    std::set<WallTime> stamps;
    const int before = rig.swaps;
    for (int i = 0; i < 100; ++i) {
        rig.advance(milliseconds(300));
        stamps.insert(rig.store->last_heartbeats.at(me));
        if (i % 10 == 0) rig.beat_other(other);
    }
    EXPECT_GE(rig.swaps - before, 9);   // one in 3 s: 0.6 of the interval
    EXPECT_LE(rig.swaps - before, 21);  // and no more than what goes along with others' writes
    EXPECT_GE(stamps.size(), 10U);
}

TEST(Heartbeats, AreNewAlsoWhenOurClockStandsStill) {
    Rig rig = running(settings(1, 2), {other});
    const WallTime before = rig.store->last_heartbeats.at(me);
    rig.change([&](RendezvousState& state) { state.last_heartbeats[me] = epoch + seconds(10'000); });
    rig.advance(seconds(4));
    EXPECT_GT(rig.store->last_heartbeats.at(me), before);
    EXPECT_GE(rig.store->last_heartbeats.at(me), epoch + seconds(10'000)) << "never behind what others have seen";
}

TEST(Skew, IsToldOfPeersAndNeverOfOurselves) {
    Rig rig(settings(2, 2));
    rig.join();
    rig.change([&](RendezvousState& state) { add_participant(state, other, epoch + seconds(90), rig.limits); });
    const auto skewed = rig.take<ClockSkewed>();
    ASSERT_EQ(skewed.size(), 1U);
    EXPECT_EQ(skewed[0].node, other);
    EXPECT_EQ(skewed[0].ahead, seconds(90));
    rig.advance(seconds(60));
    EXPECT_THAT(rig.take<ClockSkewed>(), IsEmpty());
}

TEST(Ranks, WithGapsAreNoRoundToBeIn) {
    Rig rig(settings(2, 3));
    rig.join();
    rig.change([&](RendezvousState& state) {
        add_participant(state, other, epoch, rig.limits);
        add_participant(state, third, epoch, rig.limits);
        complete_round(state, {}, rig.limits);
        remove_node(state, other, rig.limits);
    });
    EXPECT_THAT(rig.take<RoundFormed>(), IsEmpty()) << "a member had left before this node saw the round";
    EXPECT_FALSE(rig.store->participants.contains(me)) << "it wants the next one";
    EXPECT_TRUE(rig.store->wait_list.contains(me));
}

}  // namespace
}  // namespace cpprun
