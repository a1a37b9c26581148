// SPDX-License-Identifier: BSD-3-Clause
// Every time limit of the store, from both sides. ctest runs these also under a wall clock that jumps by an hour with
// each look at it.
#include "integration/store/raw_client.hpp"
#include "runtime/store/listener.hpp"
#include "runtime/store/store_host.hpp"
#include "runtime/store/tcp_store_client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>

namespace cpprun::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Kind = StoreFailure::Kind;

constexpr auto limit = 300ms;

// How long it takes, by the clock that nobody can set.
std::chrono::milliseconds duration(const std::function<void()>& what) {
    const auto begin = std::chrono::steady_clock::now();
    what();
    return std::chrono::floor<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
}

void expect_limit_held(const std::function<void()>& what) {
    const auto taken = duration(what);
    EXPECT_GE(taken, limit - 1ms);
    EXPECT_LT(taken, limit + 2s) << "on a busy machine";
}

std::unique_ptr<TcpStoreClient> client_of(std::uint16_t port) {
    auto client = TcpStoreClient::connect({.port = port, .connect_timeout = 20s, .reply_timeout = limit});
    EXPECT_TRUE(client) << client.error().message;
    return std::move(client).value();
}

TEST(TimeLimits, TheWallClockJumpsWhereThisIsMeantToShowSomething) {
    const char* step = std::getenv("CPPRUN_FAKE_CLOCK_STEP");
    if (step == nullptr) GTEST_SKIP() << "it goes as always here";
    const auto first = std::chrono::system_clock::now();
    const auto between = std::chrono::system_clock::now() - first;
    EXPECT_EQ(std::chrono::round<std::chrono::minutes>(between).count(), std::atol(step) / 60);
}

TEST(TimeLimits, OfAWait) {
    const auto host = StoreHost::start({}, {}).value();
    const auto client = client_of(host->port());
    const std::vector<std::string> keys{"never"};
    expect_limit_held([&] { EXPECT_EQ(client->wait(keys, limit).error().kind, Kind::timeout); });
    expect_limit_held([&] { EXPECT_EQ(client->get("never", limit).error().kind, Kind::timeout); });
    expect_limit_held([&] { EXPECT_EQ(client->queue_pop("never", limit).error().kind, Kind::timeout); });
    expect_limit_held([&] { EXPECT_EQ(client->barrier("never", 2, limit).error().kind, Kind::timeout); });
    EXPECT_EQ(client->add("n", 1).value(), 1);
}

TEST(TimeLimits, AWaitLongerThanThatIsReleasedByTheKey) {
    const auto host = StoreHost::start({}, {}).value();
    const auto client = client_of(host->port());
    std::jthread later([&] {
        std::this_thread::sleep_for(limit);
        host->set("/k", "v");
    });
    expect_limit_held([&] { EXPECT_EQ(client->get("k", 20s).value(), "v"); });
}

TEST(TimeLimits, OfConnectingWhereNobodyListens) {
    const auto reserved = reserve_port().value();
    std::string message;
    const auto taken = duration([&] {
        const auto client = TcpStoreClient::connect({.port = reserved.port, .connect_timeout = limit});
        message = client.error().message;
    });
    EXPECT_LE(taken, limit + 2s);
    EXPECT_THAT(message, HasSubstr("Connection refused"));
}

TEST(TimeLimits, OfAHandshakeThatIsNotAnswered) {
    const auto silent = bind_sockets(ListenScope::loopback, 0).value();
    for (const SocketFd& socket : silent.sockets) ASSERT_TRUE(start_listening(socket));
    expect_limit_held([&] { EXPECT_FALSE(TcpStoreClient::connect({.port = silent.port, .connect_timeout = limit})); });
}

TEST(TimeLimits, OfAReply) {
    const auto forgetful = bind_sockets(ListenScope::loopback, 0).value();
    const SocketFd& listener = forgetful.sockets.front();
    ASSERT_TRUE(start_listening(listener));
    std::jthread peer([&](const std::stop_token& stop) {
        pollfd entry{listener.get(), POLLIN, 0};
        while (poll(&entry, 1, 10) != 1) {
            if (stop.stop_requested()) return;
        }
        const SocketFd socket(accept(listener.get(), nullptr, nullptr));
        std::string greeting(10, '\0');
        recv(socket.get(), greeting.data(), greeting.size(), MSG_WAITALL);
        send(socket.get(), greeting.data() + 6, 4, MSG_NOSIGNAL);
        while (!stop.stop_requested()) std::this_thread::sleep_for(10ms);
    });
    const auto client = client_of(forgetful.port);
    expect_limit_held([&] { EXPECT_EQ(client->add("n", 1).error().kind, Kind::timeout); });
}

TEST(TimeLimits, OfAHandshakeAtTheServer) {
    ListenSpec spec;
    spec.handshake_timeout = limit;
    const auto host = StoreHost::start(spec, {}).value();
    const RawClient other(host->port());
    expect_limit_held([&] { EXPECT_TRUE(RawClient(host->port()).closed_by_peer()); });
}

}  // namespace
}  // namespace cpprun::test
