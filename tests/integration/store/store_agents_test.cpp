// SPDX-License-Identifier: BSD-3-Clause
// What a store does for agents, apart from their workers.
#include "integration/store/raw_client.hpp"
#include "runtime/store/store_host.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

namespace cpprun::test {
namespace {

using Op = StoreOperation;

const std::string released(1, '\0');

class StoreAgents : public testing::TestWithParam<int> {
  protected:
    void start(ListenSpec spec) {
        spec.threads = GetParam();
        spec.agent_prefixes = {"/cpprun."};
        host_ = StoreHost::start(spec, {}).value();
    }
    RawClient client() { return greeted(host_->port()); }
    RawClient agent() {
        RawClient agent = client();
        agent.set("/cpprun.hello", "");
        EXPECT_EQ(agent.get("/cpprun.hello"), "");
        return agent;
    }
    static void wait(RawClient& client, std::string_view key) {
        client.send({.operation = Op::wait, .keys = std::span(&key, 1)});
    }
    bool awaited(std::size_t count) {
        return eventually([&] { return host_->statistics().awaited_keys == count; });
    }

    KeepOnReset keep_{{"/cpprun.", "init/"}};
    std::unique_ptr<StoreHost> host_;
};

INSTANTIATE_TEST_SUITE_P(Threads, StoreAgents, testing::Values(1, 3));

TEST_P(StoreAgents, StayConnectedThroughAResetOthersDoNot) {
    start({});
    RawClient agent = this->agent();
    RawClient worker = client();
    worker.set("/k", "v");
    worker.add("init/", 1);
    RawClient silent(host_->port());
    ASSERT_EQ(agent.get("/k"), "v");
    host_->reset(keep_);
    EXPECT_TRUE(worker.closed_by_peer());
    EXPECT_TRUE(silent.closed_by_peer());
    EXPECT_EQ(host_->statistics().connections, 1U);
    EXPECT_EQ(agent.get("/k"), "");
    EXPECT_EQ(agent.get("init/"), "1");
    EXPECT_EQ(agent.get("/cpprun.hello"), "");
    EXPECT_EQ(host_->statistics().keys, 2U);
    host_->reset();
    EXPECT_TRUE(agent.closed_by_peer());
    EXPECT_EQ(host_->statistics().keys, 0U);
    EXPECT_EQ(host_->statistics().memory_bytes, 0U);
}

TEST_P(StoreAgents, AreKnownByWhatTheyAskToWrite) {
    start({});
    const std::vector<std::string_view> keys{"/other", "/cpprun.k"};
    const std::vector<std::string_view> values{"1", "2"};
    const std::vector<StoreRequest> requests{
        {.operation = Op::set, .key = "/cpprun.k"},
        {.operation = Op::add, .key = "/cpprun.n", .number = 1},
        {.operation = Op::compare_set, .key = "/cpprun.k", .value = "new", .expected = "not what is there"},
        {.operation = Op::append, .key = "/cpprun.a"},
        {.operation = Op::multi_set, .keys = keys, .values = values},
    };
    std::vector<RawClient> agents;
    for (const StoreRequest& request : requests) {
        agents.push_back(client());
        agents.back().send(request);
        agents.back().send({.operation = Op::ping, .nonce = 1});
        EXPECT_TRUE(agents.back().readable(patience));
    }
    RawClient reader = client();
    reader.get("/cpprun.k");
    host_->reset(keep_);
    EXPECT_TRUE(reader.closed_by_peer());
    EXPECT_EQ(host_->statistics().connections, agents.size());
}

TEST_P(StoreAgents, TheirWaitsOutliveAReset) {
    start({});
    RawClient agent = this->agent();
    wait(agent, "/cpprun.round");
    RawClient worker = client();
    wait(worker, "/cpprun.round");
    wait(worker, "/never");
    ASSERT_TRUE(awaited(2));
    host_->reset(keep_);
    EXPECT_TRUE(awaited(1));
    EXPECT_FALSE(agent.readable(std::chrono::milliseconds(20)));
    client().set("/cpprun.round", "2");
    EXPECT_EQ(agent.read(1), released);
}

TEST_P(StoreAgents, TheirBarriersAndQueuesOutliveAReset) {
    start({});
    RawClient first = agent();
    first.send({.operation = Op::queue_push, .key = "/cpprun.queue", .value = "item"});
    first.send({.operation = Op::queue_push, .key = "/workers", .value = "item"});
    first.send({.operation = Op::barrier, .key = "/cpprun.exit", .number = 2});
    ASSERT_TRUE(awaited(1));
    host_->reset(keep_);
    RawClient second = client();
    second.send({.operation = Op::barrier, .key = "/cpprun.exit", .number = 2});
    EXPECT_EQ(second.read(1), released);
    EXPECT_EQ(first.read(1), released);
    second.send({.operation = Op::queue_length, .key = "/cpprun.queue"});
    EXPECT_EQ(second.read(8), std::string("\1\0\0\0\0\0\0\0", 8));
    second.send({.operation = Op::queue_length, .key = "/workers"});
    EXPECT_EQ(second.read(8), std::string(8, '\0'));
}

TEST_P(StoreAgents, AHalfRequestOfAnAgentGoesOnAfterAReset) {
    start({});
    RawClient agent = this->agent();
    std::string bytes;
    encode_request({.operation = Op::set, .key = "/cpprun.k", .value = std::string(1000, 'v')}, bytes);
    agent.send(std::string_view(bytes).substr(0, 500));
    poll(nullptr, 0, 10);
    host_->reset(keep_);
    agent.send(std::string_view(bytes).substr(500));
    EXPECT_EQ(agent.get("/cpprun.k").size(), 1000U);
}

TEST_P(StoreAgents, NothingReleasedToThemIsLostInAReset) {
    start({});
    for (int round = 0; round < 200; ++round) {
        const std::string key = "/cpprun.round" + std::to_string(round);
        std::vector<RawClient> agents;
        for (int i = 0; i < 5; ++i) {
            agents.push_back(agent());
            wait(agents.back(), key);
        }
        ASSERT_TRUE(awaited(1));
        std::jthread writer([&] { host_->set(key, "now"); });
        host_->reset(keep_);
        writer.join();
        for (RawClient& agent : agents) ASSERT_EQ(agent.read(1), released) << "round " << round;
    }
}

TEST_P(StoreAgents, AnObserverHearsOfWritesAndEndsInOrder) {
    std::mutex mutex;
    std::map<std::uint64_t, std::string> heard;
    ListenSpec spec;
    spec.observed_prefixes = {"/state"};
    spec.observer = [&](const StoreEvent& event) {
        const std::scoped_lock lock(mutex);
        heard[event.client] +=
            event.kind == StoreEvent::Kind::connection_closed ? std::string("closed") : std::string(event.value) + ' ';
    };
    start(spec);
    host_->set("/state", "the host's own");
    constexpr int count = 30;
    for (int round = 0; round < 2; ++round) {
        std::vector<RawClient> clients;
        for (int i = 0; i < count; ++i) {
            clients.push_back(client());
            clients.back().set("/state" + std::to_string(i), "1");
            clients.back().set("/state" + std::to_string(i), "2");
            EXPECT_EQ(clients.back().get("/state" + std::to_string(i)), "2");
        }
        if (round == 1) host_->reset(keep_);
    }
    EXPECT_TRUE(eventually([&] { return host_->statistics().connections == 0; }));
    const std::scoped_lock lock(mutex);
    EXPECT_EQ(heard.size(), 2U * count);
    EXPECT_FALSE(heard.contains(0));
    for (const auto& [client, text] : heard) EXPECT_EQ(text, "1 2 closed") << client;
}

TEST_P(StoreAgents, EphemeralKeysAreGoneWhenTheObserverHearsOfTheEnd) {
    std::atomic<bool> closed = false;
    ListenSpec spec;
    spec.ephemeral_prefixes = {"/cpprun.live/"};
    spec.observer = [&](const StoreEvent& event) {
        if (event.kind == StoreEvent::Kind::connection_closed) closed = true;
    };
    start(spec);
    RawClient agent = client();
    agent.set("/cpprun.live/1", "here");
    EXPECT_EQ(agent.get("/cpprun.live/1"), "here");
    host_->reset(keep_);
    EXPECT_EQ(host_->get("/cpprun.live/1"), "here");
    agent.close();
    EXPECT_TRUE(eventually([&] { return closed.load(); }));
    EXPECT_EQ(host_->get("/cpprun.live/1"), std::nullopt);
}

}  // namespace
}  // namespace cpprun::test
