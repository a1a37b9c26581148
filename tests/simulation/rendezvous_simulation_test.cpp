// SPDX-License-Identifier: BSD-3-Clause
// Elastic jobs in virtual time. CPPRUN_SEEDS sets how many seeds the random ones try, CPPRUN_SEED one of them.
#include "simulation/rendezvous_world.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace cpprun::simulation {
namespace {

using std::chrono::seconds;

std::string told(const World& world) {
    std::string text;
    for (const std::string& line : world.story()) text += line + "\n";
    return text;
}

int running(const World& world) {
    int count = 0;
    for (const AgentView& agent : world.agents()) count += agent.running ? 1 : 0;
    return count;
}

#define EXPECT_SOUND(call)                                          \
    do {                                                            \
        const std::string wrong = (call);                           \
        ASSERT_TRUE(wrong.empty()) << wrong << "\n" << told(world); \
    } while (false)

TEST(Rendezvous, TwoNodesMeet) {
    World world({});
    world.add_agent(milliseconds(0), "node0");
    world.add_agent(milliseconds(5'000), "node1");
    EXPECT_SOUND(world.run_for(seconds(4)));
    EXPECT_EQ(running(world), 0);
    EXPECT_SOUND(world.run_for(seconds(2)));
    EXPECT_EQ(running(world), 2) << told(world);
    EXPECT_EQ(world.rounds_completed(), 1);
}

TEST(Rendezvous, AWorkersFailureGivesOneNewRound) {
    World world({});
    world.add_agent(milliseconds(0), "node0");
    world.add_agent(milliseconds(0), "node1");
    world.fail_worker(1, seconds(10));
    EXPECT_SOUND(world.run_for(seconds(30)));
    EXPECT_EQ(running(world), 2) << told(world);
    EXPECT_EQ(world.rounds_completed(), 2) << told(world);
}

TEST(Rendezvous, ScaleUpRestartsOnce) {
    World world({.min_nodes = 1, .max_nodes = 4});
    world.add_agent(milliseconds(0), "node0");
    world.add_agent(seconds(10), "node1");
    EXPECT_SOUND(world.run_for(seconds(9)));
    EXPECT_EQ(running(world), 1);
    EXPECT_SOUND(world.run_for(seconds(20)));
    EXPECT_EQ(running(world), 2) << told(world);
    EXPECT_EQ(world.rounds_completed(), 2) << told(world);
}

TEST(Rendezvous, ScaleDownGoesOnWithThoseWhoRemain) {
    World world({.min_nodes = 1, .max_nodes = 3});
    for (int i = 0; i < 3; ++i) world.add_agent(milliseconds(0), fmt::format("node{}", i));
    world.crash(1, seconds(20));
    EXPECT_SOUND(world.run_for(seconds(19)));
    EXPECT_EQ(running(world), 3) << told(world);
    EXPECT_SOUND(world.run_for(seconds(41)));
    EXPECT_EQ(running(world), 2) << told(world);
    EXPECT_EQ(world.rounds_completed(), 2) << told(world);
}

TEST(Rendezvous, ASpareTakesTheSeatOfADeadNode) {
    World world({});
    for (int i = 0; i < 3; ++i) world.add_agent(milliseconds(1'000 * i), fmt::format("node{}", i));
    world.crash(0, seconds(20));
    EXPECT_SOUND(world.run_for(seconds(60)));
    EXPECT_EQ(running(world), 2) << told(world);
    EXPECT_EQ(world.rounds_completed(), 2) << told(world);
}

TEST(Rendezvous, MoreNodesThanSeatsAndOneFailureGiveOneRound) {
    World world({});
    for (int i = 0; i < 4; ++i) world.add_agent(milliseconds(1'000 * i), fmt::format("node{}", i));
    world.fail_worker(1, seconds(20));
    EXPECT_SOUND(world.run_for(seconds(90)));
    EXPECT_EQ(running(world), 2) << told(world);
    EXPECT_EQ(world.rounds_completed(), 2) << told(world);
}

TEST(Rendezvous, ASpareEndsWellWhenTheRunIsClosed) {
    World world({});
    for (int i = 0; i < 3; ++i) world.add_agent(milliseconds(1'000 * i), fmt::format("node{}", i));
    world.close_run(0, seconds(20));
    EXPECT_SOUND(world.run_for(seconds(30)));
    EXPECT_EQ(world.agents()[2].end, JoinEnded::Why::spare_ended) << told(world);
    EXPECT_TRUE(world.agents()[1].ended);
}

TEST(Rendezvous, ClocksMinutesApartDoNoHarm) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        World world({.seed = seed, .min_nodes = 3, .max_nodes = 3, .skew_max = seconds(300)});
        for (int i = 0; i < 3; ++i) world.add_agent(milliseconds(700 * i), fmt::format("node{}", i));
        world.fail_worker(1, seconds(60));
        EXPECT_SOUND(world.run_for(seconds(120)));
        EXPECT_EQ(running(world), 3) << told(world);
        EXPECT_EQ(world.rounds_completed(), 2) << told(world);
    }
}

TEST(Rendezvous, WantedRanksAreHonoured) {
    World world({.min_nodes = 3, .max_nodes = 3});
    world.add_agent(milliseconds(0), "a");
    world.add_agent(milliseconds(10), "b");
    world.add_agent(milliseconds(20), "c", 0);
    EXPECT_SOUND(world.run_for(seconds(5)));
    ASSERT_TRUE(world.agents()[2].members) << told(world);
    // The last to join completes the round, and knows of its own wish.
    const auto& by_rank = world.agents()[2].members->by_rank;
    EXPECT_EQ(by_rank.size(), 3U);
}

TEST(Rendezvous, ACutOffNodeFencesItselfAndComesBack) {
    World world({.min_nodes = 1, .max_nodes = 2});
    world.add_agent(milliseconds(0), "node0");
    world.add_agent(milliseconds(10), "node1");
    world.cut_off(1, seconds(20), seconds(40));
    EXPECT_SOUND(world.run_for(seconds(55)));
    EXPECT_EQ(running(world), 1) << told(world);
    EXPECT_SOUND(world.run_for(seconds(30)));
    EXPECT_EQ(running(world), 2) << told(world);
}

int seeds() {
    const char* text = std::getenv("CPPRUN_SEEDS");
    return text == nullptr ? 300 : std::atoi(text);
}

/// Random faults for three minutes, then none: whoever lives must end up in one round, or be a spare of it.
void try_seed(std::uint64_t seed) {
    std::mt19937_64 random(seed * 7919);
    const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    WorldOptions options;
    options.seed = seed;
    options.min_nodes = pick(1, 3);
    options.max_nodes = std::max(2, options.min_nodes + pick(0, 3));  // a job of one node meets nobody
    options.loss = pick(0, 2) * 0.03;
    options.skew_max = seconds(pick(0, 1) * pick(0, 200));
    options.delay_max = milliseconds(pick(1, 200));
    World world(options);
    const int count = options.min_nodes + pick(0, 4);
    for (int i = 0; i < count; ++i) world.add_agent(milliseconds(pick(0, 8'000)), fmt::format("node{}", i));
    int survivors = count;
    const int faults = pick(0, 6);
    for (int i = 0; i < faults; ++i) {
        const int agent = pick(0, count - 1);
        const milliseconds when(pick(0, 180'000));
        switch (pick(0, 5)) {
            case 0:
                if (survivors > options.min_nodes) {
                    world.crash(agent, when);
                    --survivors;
                }
                break;
            case 1:
                world.freeze(agent, when, milliseconds(pick(0, 40'000)));
                break;
            case 2:
                world.cut_off(agent, when, milliseconds(pick(0, 40'000)));
                break;
            case 3:
                if (survivors > options.min_nodes) {
                    world.leave(agent, when);
                    --survivors;
                }
                break;
            default:
                world.fail_worker(agent, when);
        }
    }
    EXPECT_SOUND(world.run_for(seconds(180)));
    world.end_faults();
    const int before = world.rounds_completed();
    EXPECT_SOUND(world.run_for(seconds(300)));
    const int settled = world.rounds_completed();
    EXPECT_SOUND(world.run_for(seconds(120)));
    EXPECT_EQ(world.rounds_completed(), settled) << "still restarting\n" << told(world);
    EXPECT_LE(settled - before, 6) << "a storm\n" << told(world);
    int alive = 0;
    for (const AgentView& agent : world.agents()) alive += agent.alive && !agent.ended ? 1 : 0;
    EXPECT_EQ(running(world), std::min(alive, options.max_nodes)) << told(world);
}

TEST(Rendezvous, RandomFaults) {
    if (const char* one = std::getenv("CPPRUN_SEED")) {
        try_seed(std::strtoull(one, nullptr, 10));
        return;
    }
    for (int seed = 1; seed <= seeds(); ++seed) {
        SCOPED_TRACE(fmt::format("CPPRUN_SEED={}", seed));
        try_seed(static_cast<std::uint64_t>(seed));
        if (testing::Test::HasFailure()) return;
    }
}

}  // namespace
}  // namespace cpprun::simulation
