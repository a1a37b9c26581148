// SPDX-License-Identifier: BSD-3-Clause
#include "core/store/store_engine.hpp"

#include "unit/store/session_harness.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace cpprun::test {
namespace {

using namespace std::string_literals;
using Op = StoreOperation;

const std::string released("\0", 1);

TEST(StoreEngine, CompareSetFollowsTheOddRowsOfTheRealServer) {
    StoreHarness store;
    EXPECT_EQ(store.compare_set("k", "expected", "new"), "expected") << "missing key: the caller's own words come back";
    EXPECT_EQ(store.engine.number_of_keys(), 0U);
    EXPECT_EQ(store.compare_set("k", "", "one"), "one");
    EXPECT_EQ(store.compare_set("k", "other", "two"), "one");
    EXPECT_EQ(store.compare_set("k", "one", "two"), "two");
    store.set("e", "");
    EXPECT_EQ(store.compare_set("e", "", "x"), "x") << "an empty value equals an empty expectation";
}

TEST(StoreEngine, CountersAreDecimalTextReadAsStrtollReadsIt) {
    StoreHarness store;
    EXPECT_EQ(store.add("new", 0), "0");
    EXPECT_EQ(store.get("new"), "0");
    for (const auto& [text, sum] : {std::pair{"12abc", "13"}, {" +7", "8"}, {"0x10", "1"}, {"\t-4", "-3"}}) {
        store.set("n", text);
        EXPECT_EQ(store.add("n", 1), sum) << text;
    }
    store.set("n", std::to_string(std::numeric_limits<std::int64_t>::max()));
    EXPECT_EQ(store.add("n", 1), std::to_string(std::numeric_limits<std::int64_t>::min())) << "the sum wraps around";
}

TEST(StoreEngine, AddToWhatIsNoNumberClosesTheClientAndChangesNothing) {
    for (const char* text : {"", "abc", "+-3", "-", "99999999999999999999"}) {
        StoreHarness store;
        store.set("n", text);
        EXPECT_EQ(store.add("n", 1, 2), "no reply") << text;
        EXPECT_TRUE(store.rejected(2)) << text;
        EXPECT_EQ(store.get("n"), text);
    }
}

TEST(StoreEngine, GetOfAMissingKeyIsEmptyAndKeepsTheConnection) {
    StoreHarness store;
    EXPECT_EQ(store.get("nothing"), "");
    EXPECT_FALSE(store.rejected(1));
}

TEST(StoreEngine, AWaitIsReleasedByWhateverCreatesTheKey) {
    const std::vector<StoreRequest> creators = {
        {.operation = Op::set, .key = "k"},        {.operation = Op::add, .key = "k", .number = 0},
        {.operation = Op::append, .key = "k"},     {.operation = Op::compare_set, .key = "k", .value = "x"},
        {.operation = Op::queue_push, .key = "k"}, {.operation = Op::barrier, .key = "k", .number = 1},
    };
    for (const StoreRequest& creator : creators) {
        StoreHarness store;
        EXPECT_EQ(store.wait(2, {"k"}), "");
        store.ask(1, creator);
        EXPECT_EQ(store.read(2), released) << store_operation_name(creator.operation);
        EXPECT_EQ(store.engine.awaited_keys(), 0U);
    }
}

TEST(StoreEngine, AFailedCompareSetOnAMissingKeyReleasesNobody) {
    StoreHarness store;
    store.wait(2, {"k"});
    store.compare_set("k", "expected", "new");
    EXPECT_EQ(store.read(2), "");
}

TEST(StoreEngine, AKeyThatWasSetAndDeletedStillCountsAsSeen) {
    StoreHarness store;
    store.wait(2, {"a", "b"});
    store.set("a", "1");
    store.ask(1, {.operation = Op::remove, .key = "a"});
    EXPECT_EQ(store.read(2), "");
    store.set("b", "1");
    EXPECT_EQ(store.read(2), released);
}

TEST(StoreEngine, TheSameKeyTwiceInAWaitIsHarmless) {
    StoreHarness store;
    store.wait(2, {"a", "a", "a"});
    store.set("a", "1");
    EXPECT_EQ(store.read(2), released);
    store.set("a", "2");
    EXPECT_EQ(store.read(2), "");
}

TEST(StoreEngine, ACancelIsAnsweredOnceAndNothingFollowsIt) {
    StoreHarness store;
    store.wait(2, {"k"});
    EXPECT_EQ(store.ask(2, {.operation = Op::cancel_wait}), "\x01");
    store.set("k", "1");
    EXPECT_EQ(store.read(2), "");
    EXPECT_EQ(store.ask(2, {.operation = Op::cancel_wait}), "\x01") << "also with nothing to cancel";
}

TEST(StoreEngine, ACancelThatComesTooLateIsAnsweredAfterTheRelease) {
    StoreHarness store;
    store.wait(2, {"k"});
    store.set("k", "1");
    EXPECT_EQ(store.ask(2, {.operation = Op::cancel_wait}), "\0\x01"s);
}

TEST(StoreEngine, OfTwoWaitsOnOneConnectionOnlyTheLastIsAnswered) {
    StoreHarness store;
    store.wait(2, {"a"});
    store.wait(2, {"b"});
    store.set("a", "1");
    EXPECT_EQ(store.read(2), "");
    store.set("b", "1");
    EXPECT_EQ(store.read(2), released);
}

TEST(StoreEngine, AClientThatLeavesTakesItsWaitAlong) {
    StoreHarness store;
    store.wait(2, {"k", "l"});
    store.leave(2);
    EXPECT_EQ(store.engine.awaited_keys(), 0U);
    store.set("k", "1");
}

TEST(StoreEngine, ABarrierReleasesAllWhenTheLastArrives) {
    StoreHarness store;
    EXPECT_EQ(store.wait(9, {"b"}), "") << "a plain wait from before the first arrival";
    EXPECT_EQ(store.barrier(1, "b", 3), "");
    EXPECT_EQ(store.barrier(2, "b", 3), "");
    EXPECT_EQ(store.read(9), "");
    EXPECT_EQ(store.barrier(3, "b", 3), released);
    EXPECT_EQ(store.read(1) + store.read(2) + store.read(9), "\0\0\0"s);
    EXPECT_EQ(store.barrier(4, "b", 3), released) << "the count is never reset";
    EXPECT_EQ(store.get("b"), "4");
}

TEST(StoreEngine, ABarrierOfOneOrLessPassesAtOnce) {
    StoreHarness store;
    for (const std::int64_t size : {1, 0, -5}) EXPECT_EQ(store.barrier(1, "b", size), released);
}

TEST(StoreEngine, ABarrierOnWhatIsNoNumberClosesTheClient) {
    StoreHarness store;
    store.set("b", "text");
    EXPECT_EQ(store.barrier(2, "b", 2), "");
    EXPECT_TRUE(store.rejected(2));
}

TEST(StoreEngine, TwoBarriersOnOneConnectionAreTwoArrivals) {
    StoreHarness store;
    EXPECT_EQ(store.barrier(1, "b", 2), "");
    EXPECT_EQ(store.barrier(1, "b", 2), "\0\0"s);
}

TEST(StoreEngine, ASetOnTheBarriersKeyReleasesItEarly) {
    StoreHarness store;
    store.barrier(1, "b", 3);
    store.set("b", "7", 2);
    EXPECT_EQ(store.read(1), released);
}

TEST(StoreEngine, AQueueIsFirstInFirstOutAndApartFromTheKeyOfItsName) {
    StoreHarness store;
    store.push("q", "one");
    store.push("q", "two");
    store.set("q", "value");
    EXPECT_EQ(store.engine.number_of_keys(), 1U);
    EXPECT_EQ(store.pop("q"), "one");
    EXPECT_EQ(store.pop("q"), "two");
    EXPECT_EQ(store.pop("q"), "empty");
    EXPECT_EQ(store.get("q"), "value");
}

TEST(StoreEngine, APushReleasesTheLongestWaitingClientOnly) {
    StoreHarness store;
    store.wait(2, {"q"});
    store.wait(3, {"q"});
    store.push("q", "x");
    EXPECT_EQ(store.read(2), released);
    EXPECT_EQ(store.read(3), "");
    store.push("q", "y");
    EXPECT_EQ(store.read(3), released);
}

TEST(StoreEngine, AReleasedQueueWaiterLeavesNothingBehind) {
    // The real server keeps it in the queue's list, and a later push then counts against another wait of that client.
    StoreHarness store;
    store.wait(2, {"q"});
    store.push("q", "x");
    store.read(2);
    store.pop("q", 2);
    store.wait(2, {"other"});
    store.wait(3, {"q"});
    store.push("q", "y");
    EXPECT_EQ(store.read(2), "") << "its key is still missing";
    EXPECT_EQ(store.read(3), released);
}

TEST(StoreEngine, AWaitForAFilledQueueAndAMissingKeyEndsWithTheKey) {
    StoreHarness store;
    store.push("q", "x");
    store.wait(2, {"q", "k"});
    store.set("k", "1");
    EXPECT_EQ(store.read(2), released);
}

TEST(StoreEngine, APushPassesOverAWaitThatLacksAnotherKeyToo) {
    StoreHarness store;
    store.wait(2, {"q", "k"});
    store.wait(3, {"q"});
    store.push("q", "x");
    EXPECT_EQ(store.read(3), released) << "nobody sleeps beside a filled queue";
    store.set("k", "1");
    EXPECT_EQ(store.read(2), released);
}

TEST(StoreEngine, CheckCountsAFilledQueueAsPresentAndAnEmptiedOneNot) {
    StoreHarness store;
    const std::vector<std::string_view> keys{"q"};
    const StoreRequest check{.operation = Op::check, .keys = keys};
    store.push("q", "x");
    EXPECT_EQ(store.ask(1, check), released);
    store.pop("q");
    EXPECT_EQ(store.ask(1, check), "\x01");
}

TEST(StoreEngine, AppendGrowsAValueWithoutTouchingRepliesOnTheirWay) {
    MemoryCount memory{0};
    {
        Blob value(std::string(5000, 'a'), memory);
        ReplyBuffer reply;
        reply.add_value(value);
        value.append("more", memory);
        EXPECT_EQ(value.view().size(), 5004U);
        EXPECT_EQ(flat(reply).size(), 5008U);
        for (int i = 0; i < 1000; ++i) value.append("0123456789", memory);
        EXPECT_EQ(value.view().size(), 15004U);
    }
    EXPECT_EQ(memory, 0U);
}

TEST(StoreEngine, RefusesWhatDoesNotFitIntoItsMemoryAndKeepsServing) {
    StoreHarness store({.memory_bytes = 100'000});
    store.set("k", std::string(60'000, 'x'));
    store.set("l", std::string(60'000, 'x'), 2);
    EXPECT_TRUE(store.rejected(2));
    EXPECT_NE(store.fault(2).find("memory limit"), std::string::npos);
    EXPECT_EQ(store.get("k").size(), 60'000U);
    store.ask(1, {.operation = Op::remove, .key = "k"});
    store.set("l", std::string(60'000, 'x'), 3);
    EXPECT_FALSE(store.rejected(3)) << "room again";
}

TEST(StoreEngine, CountsEveryByteItTookAndGivesItBack) {
    StoreHarness store;
    std::mt19937 random(7);
    const std::vector<std::string> names{"a", "b", "c", "d"};
    for (int i = 0; i < 20'000; ++i) {
        const std::string& key = names[random() % names.size()];
        const int client = 1 + static_cast<int>(random() % 5);
        switch (random() % 9) {
            case 0:
                store.set(key, std::string(random() % 5000, 'v'), client);
                break;
            case 1:
                store.ask(client, {.operation = Op::append, .key = key, .value = "tail"});
                break;
            case 2:
                store.push(key, "item", client);
                break;
            case 3:
                store.pop(key, client);
                break;
            case 4:
                store.wait(client, {"missing", key});
                break;
            case 5:
                store.ask(client, {.operation = Op::cancel_wait});
                break;
            case 6:
                store.ask(client, {.operation = Op::remove, .key = key});
                break;
            case 7:
                store.leave(client);
                break;
            default:
                store.get(key, client);
                break;
        }
    }
    for (int client = 1; client <= 5; ++client) {
        store.read(client);
        store.leave(client);
    }
    EXPECT_GT(store.memory, 0U);
    store.engine.clear();
    EXPECT_EQ(store.memory, 0U);
    EXPECT_EQ(store.engine.awaited_keys(), 0U);
}

// Fewer of them where each takes thirty times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned many_keys = 50'000;
#else
constexpr unsigned many_keys = 1'000'000;
#endif

TEST(StoreEngine, HoldsAMillionSmallKeysInLessThan200Megabytes) {
    StoreHarness store;
    for (unsigned i = 0; i < many_keys; ++i) store.set("/key/" + std::to_string(i), std::to_string(i));
    EXPECT_EQ(store.engine.number_of_keys(), many_keys);
    EXPECT_LT(store.memory, many_keys * std::size_t{200});
}

struct Heard {
    StoreRules rules(std::vector<std::string> agents = {}) {
        return {.agent_prefixes = std::move(agents),
                .observed_prefixes = {"/state", "/torch.rendezvous."},
                .observer = [this](const StoreEvent& event) {
                    text += std::to_string(event.client);
                    text += event.kind == StoreEvent::Kind::connection_closed
                                ? " closed\n"
                                : " " + std::string(event.key) + "=" + std::string(event.value) + "\n";
                }};
    }
    std::string take() { return std::exchange(text, {}); }
    std::string text;
};

TEST(StoreObserver, HearsOfWritesToItsKeysOnly) {
    Heard heard;
    StoreHarness store({}, {}, heard.rules());
    store.set("/state/1", "on", 3);
    store.set("/other", "on");
    EXPECT_EQ(heard.take(), "3 /state/1=on\n");
    store.add("/state/n", 5);
    store.add("/state/n", -6, 2);
    EXPECT_EQ(heard.take(), "1 /state/n=5\n2 /state/n=-1\n");
    const std::vector<std::string_view> keys{"/state/a", "/other", "/state/b"};
    const std::vector<std::string_view> values{"1", "2", "3"};
    store.ask(1, {.operation = Op::multi_set, .keys = keys, .values = values});
    EXPECT_EQ(heard.take(), "1 /state/a=1\n1 /state/b=3\n");
    store.ask(1, {.operation = Op::append, .key = "/state/a", .value = "1"});
    store.ask(1, {.operation = Op::remove, .key = "/state/a"});
    EXPECT_EQ(heard.take(), "");
}

TEST(StoreObserver, HearsOfACompareSetOnlyIfItStored) {
    Heard heard;
    StoreHarness store({}, {}, heard.rules());
    const std::string key = "/torch.rendezvous.job";
    store.compare_set(key, "expected", "x");
    EXPECT_EQ(heard.take(), "");
    store.compare_set(key, "", "one");
    store.compare_set(key, "other", "two");
    store.compare_set(key, "one", "two");
    EXPECT_EQ(heard.take(), "1 " + key + "=one\n1 " + key + "=two\n");
}

TEST(StoreObserver, HearsOfTheEndOfThoseItHeardOfAndOfAgents) {
    Heard heard;
    StoreHarness store({}, {}, heard.rules({"/cpprun."}));
    store.set("/state/1", "on", 1);
    store.set("/cpprun.x", "", 2);
    store.set("/other", "", 3);
    store.get("/state/1", 3);
    EXPECT_EQ(heard.take(), "1 /state/1=on\n");
    for (const int client : {3, 1, 2}) store.leave(client);
    EXPECT_EQ(heard.take(), "1 closed\n2 closed\n");
}

TEST(StoreObserver, HearsNothingOfWhatTheMemoryLimitRefused) {
    Heard heard;
    StoreHarness store({.memory_bytes = 1000}, {}, heard.rules());
    store.set("/state/1", std::string(2000, 'x'));
    EXPECT_TRUE(store.rejected(1));
    EXPECT_EQ(heard.take(), "");
}

StoreRules ephemeral_rules() {
    return {.ephemeral_prefixes = {"/live/"}};
}

TEST(StoreEphemeral, AKeyGoesWithTheClientThatWroteItLast) {
    StoreHarness store({}, {}, ephemeral_rules());
    store.set("/live/1", "a", 2);
    store.set("/live/2", "a", 2);
    store.set("/live/2", "b", 3);
    store.add("/live/3", 1, 2);
    store.set("/other", "a", 2);
    store.leave(2);
    EXPECT_EQ(store.engine.get("/live/1"), std::nullopt);
    EXPECT_EQ(store.engine.get("/live/3"), std::nullopt);
    EXPECT_EQ(store.engine.get("/live/2"), "b");
    EXPECT_EQ(store.engine.get("/other"), "a");
    store.leave(3);
    EXPECT_EQ(store.engine.number_of_keys(), 1U);
}

TEST(StoreEphemeral, ACompareSetTakesAKeyOverOnlyIfItStored) {
    StoreHarness store({}, {}, ephemeral_rules());
    store.set("/live/1", "a", 2);
    store.compare_set("/live/1", "other", "b");
    store.leave(1);
    EXPECT_EQ(store.engine.get("/live/1"), "a");
    store.compare_set("/live/1", "a", "b");
    store.leave(2);
    EXPECT_EQ(store.engine.get("/live/1"), "b");
    store.leave(1);
    EXPECT_EQ(store.engine.get("/live/1"), std::nullopt);
}

TEST(StoreEphemeral, ADeletedKeyThatAnotherWritesAgainStays) {
    StoreHarness store({}, {}, ephemeral_rules());
    store.set("/live/1", "a", 2);
    store.ask(3, {.operation = Op::remove, .key = "/live/1"});
    store.set("/live/1", "b", 3);
    store.leave(2);
    EXPECT_EQ(store.engine.get("/live/1"), "b");
}

TEST(StoreEphemeral, WhatTheProcessItselfWroteStays) {
    StoreHarness store({}, {}, ephemeral_rules());
    store.set("/live/1", "a", 2);
    store.set("/live/2", "a", 2);
    store.engine.set("/live/1", "own", store.delivery());
    EXPECT_EQ(store.engine.compare_set("/live/2", "a", "own", store.delivery()), "own");
    store.leave(2);
    EXPECT_EQ(store.engine.get("/live/1"), "own");
    EXPECT_EQ(store.engine.get("/live/2"), "own");
}

TEST(StoreEphemeral, ManyWritesCostNoMoreThanTheKeys) {
    StoreHarness store({}, {}, ephemeral_rules());
    store.get("/", 2);
    const std::size_t before = store.memory;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 100; ++i) store.set("/live/" + std::to_string(i), "x", 2 + round % 2);
    }
    EXPECT_LT(store.memory - before, 100U * 300);
    store.engine.clear_but({"/live/1"});
    EXPECT_EQ(store.engine.number_of_keys(), 11U);
    store.engine.clear();
    EXPECT_EQ(store.memory, before);
    store.set("/live/1", "x", 2);
    store.leave(2);
    store.leave(3);
    EXPECT_EQ(store.memory, before);
}

TEST(StoreEphemeral, AFloodEndsAtTheMemoryLimitAndGoesWithItsClient) {
    constexpr std::size_t memory_max = 200'000;
    StoreHarness store({.memory_bytes = memory_max}, {}, ephemeral_rules());
    for (int i = 0; i < 10'000 && !store.rejected(2); ++i) store.set("/live/" + std::to_string(i), "x", 2);
    EXPECT_TRUE(store.rejected(2));
    EXPECT_LE(store.memory, memory_max);
    EXPECT_GT(store.engine.number_of_keys(), 500U);
    store.leave(2);
    EXPECT_EQ(store.engine.number_of_keys(), 0U);
    store.set("/k", "v");
    EXPECT_EQ(store.get("/k"), "v");
}

}  // namespace
}  // namespace cpprun::test
