// SPDX-License-Identifier: BSD-3-Clause
// Elastic jobs in virtual time. CPPRUN_SEEDS sets how many seeds the random ones try, CPPRUN_SEED one of them, and
// CPPRUN_FIRST_SEED where they begin.
#include "simulation/rendezvous_world.hpp"
#include "simulation/story.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

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

// A sanitizer makes a seed fifty times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t seeds = 50;
#else
constexpr std::uint64_t seeds = 2000;
#endif

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

/// Comes each second and a half, and dies in between, for five minutes; each time it is another node.
void let_a_node_flap(World& world) {
    for (int i = 0; i < 200; ++i) {
        const int agent = world.add_agent(seconds(10) + milliseconds(1'500 * i), "flapping");
        world.crash(agent, seconds(10) + milliseconds(1'500 * i + 1'000));
    }
}

TEST(Rendezvous, B39AFlappingNodeMakesNoStormOfRestarts) {
    for (const bool led : {false, true}) {
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            World world({.seed = seed, .min_nodes = 2, .max_nodes = 4, .last_call = milliseconds(100), .led = led});
            world.add_agent(milliseconds(0), "node0");
            world.add_agent(milliseconds(0), "node1");
            let_a_node_flap(world);
            EXPECT_SOUND(world.run_for(seconds(310)));
            // Of 200 that came. One that is let in costs two rounds: with it, and without it again.
            EXPECT_LE(world.rounds_completed(), 40) << "led " << led << " seed " << seed;
            EXPECT_GE(world.holds_told(), 3) << "led " << led << " seed " << seed;
            // What holds the flapping one back keeps nobody out for good.
            world.add_agent(seconds(1), "late");
            EXPECT_SOUND(world.run_for(seconds(90)));
            EXPECT_EQ(running(world), 3) << "led " << led << " seed " << seed << told(world);
        }
    }
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

// --- stories ---

std::vector<std::filesystem::path> story_files() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(CPPRUN_STORIES))
        if (entry.path().extension() == ".txt") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

class Story : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Story, EndsAsRecorded) {
    std::ostringstream text;
    text << std::ifstream(GetParam()).rdbuf();
    // Where the first node must not fail, since the store ends with it, the story is told of led agents as well.
    const bool led_only = text.str().find("# led only") != std::string::npos;
    const bool led_too = led_only || text.str().find("# also led") != std::string::npos;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        if (!led_only) ASSERT_EQ(tell_story(text.str(), seed, false), "") << GetParam() << ", seed " << seed;
        if (led_too) ASSERT_EQ(tell_story(text.str(), seed, true), "") << GetParam() << ", led, seed " << seed;
    }
}

INSTANTIATE_TEST_SUITE_P(Files, Story, testing::ValuesIn(story_files()),
                         [](const auto& given) { return given.param.stem().string(); });

// --- random faults ---

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Random faults for three minutes, then none: whoever lives must end up in one round, or be a spare of it.
void try_seed(std::uint64_t seed, bool led = false) {
    std::mt19937_64 random(seed * 7919);
    const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    WorldOptions options;
    options.seed = seed;
    options.led = led;
    options.min_nodes = pick(1, 3);
    options.max_nodes = std::max(2, options.min_nodes + pick(0, 3));  // a job of one node meets nobody
    options.loss = pick(0, 2) * 0.03;
    options.skew_max = seconds(pick(0, 1) * pick(0, 200));
    options.delay_max = milliseconds(pick(1, 200));
    World world(options);
    const int count = options.min_nodes + pick(0, 4);
    for (int i = 0; i < count; ++i)
        world.add_agent(milliseconds(led && i == 0 ? 0 : pick(0, 8'000)), fmt::format("node{}", i));
    int survivors = count;
    const int faults = pick(0, 6);
    for (int i = 0; i < faults; ++i) {
        const int agent = pick(0, count - 1);
        const milliseconds when(pick(0, 180'000));
        const int what = pick(0, 5);
        if (led && agent == 0 && what < 4) continue;  // the job ends with its store
        switch (what) {
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

/// A long run goes on after a failure, so that it finds more than the first.
void try_seeds(std::uint64_t count, bool led) {
    const std::uint64_t first = number_from("CPPRUN_FIRST_SEED", 1);
    int failed = 0;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        SCOPED_TRACE(fmt::format("CPPRUN_SEED={}", seed));
        const auto* result = testing::UnitTest::GetInstance()->current_test_info()->result();
        const int before = result->total_part_count();
        try_seed(seed, led);
        failed += result->total_part_count() > before ? 1 : 0;
        if (failed == 5) return;
    }
}

TEST(Rendezvous, RandomFaults) {
    if (const auto one = number_from("CPPRUN_SEED", 0)) {
        try_seed(one);
    } else {
        try_seeds(number_from("CPPRUN_SEEDS", seeds), false);
    }
}

TEST(Rendezvous, RandomFaultsOfLedAgents) {
    if (const auto one = number_from("CPPRUN_SEED", 0)) {
        try_seed(one, true);
    } else {
        try_seeds(number_from("CPPRUN_SEEDS", seeds), true);
    }
}

// What a random seed found once, and what it was that went wrong is in the history of membership_machine.cpp. Never
// take one away; a change of the world's dice makes them others, and then they are only a few seeds more.
TEST(Rendezvous, SeedsThatFailedOnce) {
    for (const std::uint64_t seed : {16U, 32U, 61U, 91U, 516U, 2952U}) {
        SCOPED_TRACE(fmt::format("CPPRUN_SEED={}", seed));
        try_seed(seed);
    }
}

}  // namespace
}  // namespace cpprun::simulation
