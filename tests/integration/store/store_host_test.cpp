// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/store/store_host.hpp"

#include "fixtures/store/conversation.hpp"
#include "integration/store/raw_client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

namespace cpprun::test {
namespace {

using testing::HasSubstr;
using Op = StoreOperation;

std::unique_ptr<StoreHost> start(ListenSpec spec = {}) {
    auto host = StoreHost::start(spec, {});
    EXPECT_TRUE(host) << host.error().message;
    return std::move(host).value();
}

TEST(StoreHost, AnswersARecordedConversationOverASocket) {
    for (const char* file : {"current.txt", "current_two_clients.txt"}) {
        const auto host = start();
        std::map<int, RawClient> clients;
        for (const auto& step : read_conversation(file)) {
            RawClient& client = clients.try_emplace(step.client, host->port()).first->second;
            if (step.to_server) {
                client.send(step.bytes);
                // Whoever it releases must have heard before the next line.
                if (clients.size() > 1) poll(nullptr, 0, 5);
            } else {
                EXPECT_EQ(hex(client.read(step.bytes.size())), hex(step.bytes)) << step.line;
            }
        }
        for (auto& [number, client] : clients) EXPECT_FALSE(client.readable(std::chrono::milliseconds(20)));
    }
}

TEST(StoreHost, ServesTheSameFromSeveralThreads) {
    ListenSpec spec;
    spec.threads = 3;
    const auto host = start(spec);
    std::vector<std::jthread> users;
    constexpr int count = 12;
    constexpr int rounds = 200;
    for (int i = 0; i < count; ++i) {
        users.emplace_back([&host] {
            RawClient client = greeted(host->port());
            for (int round = 0; round < rounds; ++round) {
                client.add("/sum", 1);
                client.send({.operation = Op::barrier, .key = "/round" + std::to_string(round), .number = count});
                EXPECT_EQ(client.read(1), std::string(1, '\0'));
            }
        });
    }
    users.clear();
    EXPECT_EQ(greeted(host->port()).get("/sum"), std::to_string(count * rounds));
}

TEST(StoreHost, ResetForgetsEveryKeyAndClosesEveryConnection) {
    for (const int threads : {1, 2}) {
        ListenSpec spec;
        spec.threads = threads;
        const auto host = start(spec);
        RawClient writer = greeted(host->port());
        writer.set("/k", "v");
        RawClient waiter = greeted(host->port());
        const std::vector<std::string_view> keys{"/never"};
        waiter.send({.operation = Op::wait, .keys = keys});
        EXPECT_EQ(writer.get("/k"), "v");
        ASSERT_TRUE(eventually([&] { return host->statistics().awaited_keys == 1; }));
        const std::uint16_t port = host->port();
        host->reset();
        EXPECT_EQ(host->statistics().keys, 0U);
        EXPECT_EQ(host->statistics().connections, 0U);
        EXPECT_EQ(host->statistics().memory_bytes, 0U);
        EXPECT_TRUE(writer.closed_by_peer());
        EXPECT_TRUE(waiter.closed_by_peer());
        EXPECT_EQ(host->port(), port);
        EXPECT_EQ(greeted(port).get("/k"), "");
    }
}

TEST(StoreHost, ALateWriteOfTheFormerAttemptNeverReachesTheNextOne) {
    const auto host = start();
    for (int attempt = 0; attempt < 100; ++attempt) {
        RawClient late = greeted(host->port());
        late.set("/default_pg/0", "stale");
        host->reset();
        late.set("/default_pg/0", "stale");
        late.set("/default_pg/0", "stale");
        RawClient fresh = greeted(host->port());
        ASSERT_EQ(fresh.get("/default_pg/0"), "") << "attempt " << attempt;
        ASSERT_EQ(fresh.add("init/", 1), 1);
    }
}

TEST(StoreHost, ResetWhileClientsStormNeitherHangsNorLeaksConnections) {
    const auto host = start();
    std::jthread storm([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            std::vector<RawClient> clients;
            for (int i = 0; i < 20; ++i) {
                clients.emplace_back(host->port());
                clients.back().greet();
                clients.back().send({.operation = Op::add, .key = "/n", .number = 1});
            }
        }
    });
    for (int i = 0; i < 200; ++i) host->reset();
    storm.request_stop();
    storm.join();
    EXPECT_TRUE(eventually([&] { return host->statistics().connections == 0; }));
}

TEST(StoreHost, StoppedWithWaitersGivesThemACleanEnd) {
    auto host = start();
    RawClient waiter = greeted(host->port());
    const std::vector<std::string_view> keys{"/never"};
    waiter.send({.operation = Op::wait, .keys = keys});
    ASSERT_TRUE(eventually([&] { return host->statistics().awaited_keys == 1; }));
    host.reset();
    char byte = 0;
    ASSERT_TRUE(waiter.readable(patience));
    EXPECT_EQ(recv(waiter.fd(), &byte, 1, 0), 0) << "an orderly end, not a reset";
}

TEST(StoreHost, AClientKilledInTheMiddleOfARequestLeavesNothingOfIt) {
    const auto host = start();
    std::string bytes;
    const std::vector<std::string_view> keys{"/a", "/b"};
    const std::vector<std::string_view> values{"1", "2"};
    encode_request({.operation = Op::multi_set, .keys = keys, .values = values}, bytes);
    RawClient victim = greeted(host->port());
    victim.send(std::string_view(bytes).substr(0, bytes.size() - 1));
    victim.close();
    RawClient other = greeted(host->port());
    ASSERT_TRUE(eventually([&] { return host->statistics().connections == 1; }));
    EXPECT_EQ(other.get("/a"), "");
    EXPECT_EQ(host->statistics().keys, 0U);
}

TEST(StoreHost, LegacyClientsAndTheirSilentSecondConnectionsAreServed) {
    ListenSpec spec;
    spec.legacy = true;
    spec.handshake_timeout = std::chrono::milliseconds(50);
    const auto host = start(spec);
    RawClient client(host->port());
    RawClient silent(host->port());
    std::string add(1, '\x03');
    append_u64(add, 5);
    add += "init/";
    append_u64(add, 1);
    client.send(add);
    EXPECT_EQ(client.read(8), std::string("\x01\0\0\0\0\0\0\0", 8));
    EXPECT_FALSE(silent.readable(std::chrono::milliseconds(200)));
}

TEST(StoreHost, InitialValuesAreThereForTheFirstClient) {
    ListenSpec spec;
    spec.initial_values = {{"/cpprun.id", "job"}, {"init/", "7"}};
    const auto host = start(spec);
    RawClient client = greeted(host->port());
    EXPECT_EQ(client.get("/cpprun.id"), "job");
    EXPECT_EQ(client.add("init/", 1), 8);
}

TEST(StoreHost, ItsOwnProcessAsksWithoutASocket) {
    const auto host = start();
    RawClient client = greeted(host->port());
    EXPECT_EQ(host->get("/k"), std::nullopt);
    host->set("/k", "v");
    EXPECT_EQ(client.get("/k"), "v");
    EXPECT_EQ(host->get("/k"), "v");
    EXPECT_EQ(host->compare_set("/new", "expected", "x"), "expected");
    EXPECT_EQ(host->get("/new"), std::nullopt);
    EXPECT_EQ(host->compare_set("/new", "", "x"), "x");
    EXPECT_EQ(host->compare_set("/new", "other", "y"), "x");
    EXPECT_EQ(host->compare_set("/new", "x", "y"), "y");
    host->multi_set({{"/a", "1"}, {"/b", ""}});
    EXPECT_EQ(host->get("/b"), "");
    EXPECT_EQ(host->remove({"/a", "/b", "/never"}), 2U);
    EXPECT_EQ(client.get("/a"), "");
    EXPECT_EQ(host->statistics().keys, 2U);
}

TEST(StoreHost, ItsOwnProcessReleasesWaitersOfEveryThread) {
    for (const int threads : {1, 3}) {
        ListenSpec spec;
        spec.threads = threads;
        const auto host = start(spec);
        const std::vector<std::string_view> keys{"/a", "/b"};
        std::vector<RawClient> waiters;
        for (std::size_t i = 0; i < 200; ++i) {
            waiters.push_back(greeted(host->port()));
            waiters.back().send({.operation = Op::wait, .keys = keys});
        }
        for (RawClient& waiter : waiters) waiter.add("/waiting", 0);
        host->multi_set({{"/a", "1"}, {"/b", "2"}});
        for (RawClient& waiter : waiters) ASSERT_EQ(waiter.read(1), std::string(1, '\0'));
        EXPECT_EQ(host->statistics().awaited_keys, 0U);
    }
}

TEST(StoreHost, ItsOwnProcessWritesWhileClientsStormAndTheStoreResets) {
    ListenSpec spec;
    spec.threads = 2;
    const auto host = start(spec);
    std::jthread storm([&](const std::stop_token& stop) {
        const std::vector<std::string_view> keys{"/k"};
        while (!stop.stop_requested()) {
            std::vector<RawClient> clients;
            for (int i = 0; i < 20; ++i) {
                clients.push_back(greeted(host->port()));
                clients.back().send({.operation = Op::wait, .keys = keys});
            }
        }
    });
    for (int i = 0; i < 3000; ++i) {
        host->set("/k", "v");
        host->remove({"/k"});
        if (i % 100 == 0) host->reset();
    }
    storm.request_stop();
    storm.join();
    EXPECT_TRUE(eventually([&] { return host->statistics().connections == 0; }));
}

}  // namespace
}  // namespace cpprun::test
