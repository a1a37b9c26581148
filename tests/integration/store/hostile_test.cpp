// SPDX-License-Identifier: BSD-3-Clause
// Peers that mean ill, and peers that are merely unlucky: user cases B97 and B99. Asking the name service anywhere on
// the way of a connection ends this whole program.
#include "integration/store/child.hpp"
#include "integration/store/raw_client.hpp"
#include "runtime/store/store_host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <netdb.h>
#include <netinet/tcp.h>
#include <random>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <thread>

extern "C" {
int getnameinfo(const sockaddr*, socklen_t, char*, socklen_t, char*, socklen_t, int) {
    abort();
}
int getaddrinfo(const char*, const char*, const addrinfo*, addrinfo**) {
    abort();
}
hostent* gethostbyname(const char*) {
    abort();
}
}

namespace cpprun::test {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;
using Op = StoreOperation;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

std::size_t resident_bytes(const std::string& process = "self") {
    std::ifstream file("/proc/" + process + "/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    file >> total >> resident;
    return resident * 4096;
}

class Hostile : public testing::Test {
  protected:
    void start(const ListenSpec& spec = {}) {
        host_ = StoreHost::start(spec, [this](StoreLogLevel, const std::string& line) {
                    const std::scoped_lock lock(mutex_);
                    lines_.push_back(line);
                }).value();
        bystander_.emplace(host_->port());
        bystander_->greet();
        ASSERT_EQ(bystander_->add("/alive", 1), 1);
    }
    void TearDown() override {
        if (host_) EXPECT_GT(bystander_->add("/alive", 1), 1) << "a bystander must not notice";
    }
    std::vector<std::string> lines() {
        const std::scoped_lock lock(mutex_);
        return lines_;
    }
    RawClient plain() { return RawClient(host_->port()); }
    RawClient greeted_client() { return greeted(host_->port()); }

  private:
    // Before the host, whose thread logs until it is gone.
    std::mutex mutex_;
    std::vector<std::string> lines_;

  protected:
    std::unique_ptr<StoreHost> host_;
    std::optional<RawClient> bystander_;
};

TEST_F(Hostile, B97ScannersAndStrayClientsAreDroppedWithOneLine) {
    start();
    const std::size_t before = resident_bytes();
    std::mt19937 random(3);
    std::string noise(1 << 20, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    for (int i = 0; i < 50; ++i) {
        RawClient scanner = plain();
        noise.front() = static_cast<char>(1 + i);
        scanner.send(noise);
        EXPECT_TRUE(scanner.closed_by_peer());
        RawClient browser = plain();
        browser.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        EXPECT_TRUE(browser.closed_by_peer());
    }
    std::vector<RawClient> silent;
    for (int i = 0; i < 500; ++i) silent.push_back(plain());
    EXPECT_GT(bystander_->add("/alive", 1), 1);
    if (!sanitized) EXPECT_LT(resident_bytes(), before + 10'000'000U);
    EXPECT_THAT(lines(), SizeIs(1)) << "one line for one address and minute";
    EXPECT_THAT(lines(), Each(HasSubstr("store: dropped 127.0.0.1:")));
}

TEST_F(Hostile, B97AbsurdLengthsAreRefusedWhenTheyAreRead) {
    start();
    const std::size_t before = resident_bytes();
    for (int operation = 1; operation <= 18; ++operation) {
        for (const std::uint64_t length : {std::uint64_t{1} << 63U, UINT64_MAX, std::uint64_t{1} << 40U}) {
            RawClient client = greeted_client();
            std::string bytes(1, static_cast<char>(operation));
            append_u64(bytes, length);
            client.send(bytes);
            const bool has_length = operation != 7 && operation != 12 && operation != 13 && operation != 17;
            if (has_length) EXPECT_TRUE(client.closed_by_peer()) << operation;
        }
    }
    RawClient many = greeted_client();
    std::string bytes(1, '\x06');
    append_u64(bytes, 1'000'000);
    many.send(bytes);
    EXPECT_TRUE(many.closed_by_peer());
    if (!sanitized) EXPECT_LT(resident_bytes(), before + 10'000'000U);
}

TEST_F(Hostile, WhoDribblesItsHandshakeIsDroppedInTime) {
    ListenSpec spec;
    spec.handshake_timeout = 200ms;
    start(spec);
    RawClient dribbler = plain();
    RawClient silent = plain();
    dribbler.send(std::string_view("\0\xce", 2));
    EXPECT_TRUE(dribbler.closed_by_peer());
    EXPECT_TRUE(silent.closed_by_peer());
    EXPECT_THAT(lines(), SizeIs(1));
    EXPECT_THAT(lines(), Each(HasSubstr("no handshake in time")));
}

TEST_F(Hostile, AfterItsHandshakeAClientMayTakeAllTheTimeInTheWorld) {
    ListenSpec spec;
    spec.handshake_timeout = 50ms;
    start(spec);
    RawClient debugged = greeted_client();
    std::string bytes;
    encode_request({.operation = Op::add, .key = "/n", .number = 4}, bytes);
    debugged.send(std::string_view(bytes).substr(0, 12));
    EXPECT_FALSE(debugged.readable(300ms)) << "half a request, and it is still welcome";
    debugged.send(std::string_view(bytes).substr(12));
    EXPECT_EQ(debugged.read(8), std::string("\x04\0\0\0\0\0\0\0", 8));
}

TEST_F(Hostile, WhoNeverReadsItsRepliesHoldsNoMoreThanOneBacklog) {
    start();
    bystander_->set("/big", std::string(1 << 20, 'b'));
    ASSERT_GT(bystander_->add("/alive", 1), 0);
    const std::size_t before = host_->statistics().memory_bytes;
    std::vector<RawClient> deaf;
    std::string request;
    for (int i = 0; i < 200; ++i) encode_request({.operation = Op::get, .key = "/big"}, request);
    for (int i = 0; i < 20; ++i) {
        deaf.push_back(greeted_client());
        deaf.back().send(request);
    }
    EXPECT_GT(bystander_->add("/alive", 1), 0);
    EXPECT_LT(host_->statistics().memory_bytes, before + 20U * 2'000'000U) << "200 MiB were asked for by each";
    // One of them wakes up after all and finds everything in order.
    for (int i = 0; i < 200; ++i) {
        ASSERT_EQ(read_u64(deaf.front().read(8).data()), 1U << 20U) << i;
        ASSERT_EQ(deaf.front().read(1 << 20).size(), 1U << 20U) << i;
    }
}

TEST_F(Hostile, LongRepliesInManyPiecesArriveWhole) {
    start();
    std::vector<std::string> names;
    std::string expected;
    for (int i = 0; i < 5000; ++i) {
        names.push_back("/key" + std::to_string(i));
        const std::string value(static_cast<std::size_t>(i) % 3 == 0 ? 4000 : 10, static_cast<char>('a' + i % 26));
        bystander_->set(names.back(), value);
        append_u64(expected, value.size());
        expected += value;
    }
    bystander_->add("/alive", 1);
    const std::vector<std::string_view> keys(names.begin(), names.end());
    RawClient slow(host_->port(), "127.0.0.1", 4096);
    slow.greet();
    slow.send({.operation = Op::multi_get, .keys = keys});
    EXPECT_TRUE(slow.read(expected.size()) == expected);
}

TEST_F(Hostile, WhatDoesNotFitIntoTheMemoryLimitIsRefusedWithALine) {
    ListenSpec spec;
    spec.memory_bytes_max = 4'000'000;
    start(spec);
    RawClient greedy = greeted_client();
    for (int i = 0; i < 10; ++i) greedy.set("/" + std::to_string(i), std::string(1'000'000, 'x'));
    EXPECT_TRUE(greedy.closed_by_peer());
    EXPECT_LE(host_->statistics().memory_bytes, 5'000'000U);
    RawClient half = greeted_client();
    std::string bytes(1, '\x01');
    append_u64(bytes, 1);
    bytes += 'k';
    append_u64(bytes, 8'000'000);
    half.send(bytes + std::string(5'000'000, 'x'));
    EXPECT_TRUE(half.closed_by_peer());
    EXPECT_THAT(lines(), Each(HasSubstr("memory limit")));
}

TEST_F(Hostile, OneConnectionTooManyIsRefusedWithALine) {
    ListenSpec spec;
    spec.connections_max = 10;
    start(spec);
    std::vector<RawClient> idle;
    for (int i = 0; i < 9; ++i) {
        idle.push_back(greeted_client());
        ASSERT_EQ(idle.back().add("/n", 1), i + 1);
    }
    EXPECT_TRUE(plain().closed_by_peer());
    EXPECT_TRUE(plain().closed_by_peer());
    EXPECT_THAT(lines(), SizeIs(1));
    EXPECT_THAT(lines(), Each(HasSubstr("10 connections are open")));
    idle.pop_back();
    EXPECT_TRUE(eventually([&] { return greeted_client().add("/m", 1) > 0; })) << "room again";
}

TEST_F(Hostile, SilentConnectionsMakeRoomForOnesThatSpeak) {
    ListenSpec spec;
    spec.connections_max = 10;
    start(spec);
    std::vector<RawClient> silent;
    for (int i = 0; i < 9; ++i) silent.push_back(plain());
    EXPECT_TRUE(eventually([&] { return greeted_client().add("/n", 1) > 0; }));
    EXPECT_TRUE(silent.front().closed_by_peer()) << "the longest silent one";
}

TEST_F(Hostile, AcceptedSocketsNoticeDeadHostsAndDoNotDelay) {
    start();
    SocketAddress own = local_address(bystander_->fd());
    int found = 0;
    for (int fd = 3; fd < 1000; ++fd) {
        SocketAddress peer;
        peer.length = sizeof peer.storage;
        if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) != 0) continue;
        if (peer.port() != own.port() || !same_host(peer, own)) continue;
        ++found;
        for (const auto& [level, option] : {std::pair{SOL_SOCKET, SO_KEEPALIVE}, {IPPROTO_TCP, TCP_NODELAY}}) {
            int value = 0;
            socklen_t length = sizeof value;
            getsockopt(fd, level, option, &value, &length);
            EXPECT_EQ(value, 1);
        }
        int idle = 0;
        socklen_t length = sizeof idle;
        getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &length);
        EXPECT_EQ(idle, 60);
    }
    EXPECT_EQ(found, 1);
}

TEST_F(Hostile, B99AStormOfThreeThousandClientsIsServedWithoutAFailure) {
    start();
    constexpr int count = 3000;
    std::vector<RawClient> clients;
    clients.reserve(count);
    for (int i = 0; i < count; ++i) {
        clients.push_back(plain());
        ASSERT_TRUE(clients.back().connected());
    }
    const std::vector<std::string_view> keys{"/go"};
    for (RawClient& client : clients) {
        ASSERT_TRUE(client.greet());
        client.send({.operation = Op::ping, .nonce = 7});
        client.send({.operation = Op::add, .key = "init/", .number = 1});
        client.send({.operation = Op::wait, .keys = keys});
    }
    for (RawClient& client : clients) ASSERT_EQ(client.read(12).size(), 12U);
    ASSERT_TRUE(eventually([&] { return bystander_->add("init/", 0) == count; }));
    bystander_->set("/go", "");
    for (RawClient& client : clients) ASSERT_EQ(client.read(1).size(), 1U);
}

TEST(HostileDescriptors, RunningOutOfThemRefusesTheNewAndKeepsTheOld) {
    const Child host({CPPRUN_STORE_PROGRAM, "loopback", "0", "100000"}, 64);
    ASSERT_GT(host.number(), 0);
    RawClient first = greeted(host.port());
    ASSERT_EQ(first.add("/n", 1), 1);
    std::vector<RawClient> clients;
    int served = 0;
    for (int i = 0; i < 150; ++i) {
        clients.push_back(greeted(host.port()));
        served += clients.back().add("/served", 1) > 0 ? 1 : 0;
    }
    EXPECT_GT(served, 30);
    EXPECT_LT(served, 64);
    EXPECT_EQ(first.add("/n", 1), 2);
    clients.clear();
    EXPECT_TRUE(eventually([&] { return greeted(host.port()).add("/n", 1) > 0; })) << "places are free again";
}

TEST(HostileDescriptors, NineteenThousandIdleConnectionsCostLittleAndHinderNobody) {
    constexpr std::size_t count = 19'000;
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < count + 200) GTEST_SKIP() << "only " << limit.rlim_cur << " descriptors";
    const Child host({CPPRUN_STORE_PROGRAM});
    RawClient first = greeted(host.port());
    ASSERT_EQ(first.add("/n", 1), 1);
    const std::size_t before = resident_bytes(std::to_string(host.pid()));
    std::vector<RawClient> clients;
    clients.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        clients.push_back(greeted(host.port()));
        ASSERT_TRUE(clients.back().connected()) << i;
    }
    ASSERT_GT(clients.back().add("/n", 1), 1);
    ASSERT_GT(first.add("/n", 1), 2);
    if (!sanitized) EXPECT_LT(resident_bytes(std::to_string(host.pid())) - before, count * 4096U);
    RecordProperty("bytes_per_connection",
                   static_cast<int>((resident_bytes(std::to_string(host.pid())) - before) / count));
}

}  // namespace
}  // namespace cpprun::test
