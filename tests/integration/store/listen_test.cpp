// SPDX-License-Identifier: BSD-3-Clause
// Where the store listens: user cases B57, B69, B70, B92, B93.
#include "integration/store/raw_client.hpp"
#include "runtime/store/store_host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <set>
#include <sstream>
#include <unistd.h>

namespace cpprun::test {
namespace {

using testing::HasSubstr;

bool has_ipv6() {
    return RawClient(1, "::1").fd() >= 0 && bind_sockets(ListenScope::loopback, 0, {"::1"}).has_value();
}

ListenSpec spec_on(ListenScope scope, std::uint16_t port = 0) {
    ListenSpec spec;
    spec.scope = scope;
    spec.port = port;
    return spec;
}

// Local addresses of sockets that listen on `port`, as the kernel's tables write them.
std::set<std::string> listening_addresses(std::uint16_t port) {
    std::set<std::string> addresses;
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream file(table);
        for (std::string line; std::getline(file, line);) {
            std::istringstream row(line);
            std::string number, local, remote, state;
            row >> number >> local >> remote >> state;
            const auto colon = local.rfind(':');
            if (state == "0A" && std::stoul(local.substr(colon + 1), nullptr, 16) == port) {
                addresses.insert(local.substr(0, colon));
            }
        }
    }
    return addresses;
}

TEST(Listen, B92AStoreOfOneNodeListensOnLoopbackOnly) {
    const auto host = StoreHost::start(spec_on(ListenScope::loopback), {}).value();
    std::set<std::string> expected{"0100007F"};
    if (has_ipv6()) expected.insert("00000000000000000000000001000000");
    EXPECT_EQ(listening_addresses(host->port()), expected);
    EXPECT_TRUE(RawClient(host->port(), "127.0.0.1").connected());
    EXPECT_EQ(RawClient(host->port(), "::1").connected(), has_ipv6());
    EXPECT_FALSE(RawClient(host->port(), "127.0.0.2").connected());
}

TEST(Listen, B92ABindAddressIsTheOnlyOneListenedOn) {
    ListenSpec spec = spec_on(ListenScope::all);
    spec.bind_addresses = {"127.0.0.3"};
    const auto host = StoreHost::start(spec, {}).value();
    EXPECT_TRUE(RawClient(host->port(), "127.0.0.3").connected());
    EXPECT_FALSE(RawClient(host->port(), "127.0.0.1").connected());
}

TEST(Listen, AllMeansIpv4AndIpv6OnOnePort) {
    const auto host = StoreHost::start(spec_on(ListenScope::all), {}).value();
    EXPECT_TRUE(RawClient(host->port(), "127.0.0.1").connected());
    EXPECT_TRUE(RawClient(host->port(), "127.0.0.5").connected());
    EXPECT_EQ(RawClient(host->port(), "::1").connected(), has_ipv6());
}

TEST(Listen, ANameIsNoBindAddress) {
    ListenSpec spec;
    spec.bind_addresses = {"localhost"};
    const auto host = StoreHost::start(spec, {});
    ASSERT_FALSE(host);
    EXPECT_EQ(host.error().kind, ErrorKind::usage);
    EXPECT_THAT(host.error().message, HasSubstr("'localhost'"));
}

TEST(Listen, B57AddressInUseNamesAddressPortAndTheProcessThatHasIt) {
    const auto holder = StoreHost::start(spec_on(ListenScope::loopback), {}).value();
    for (const ListenScope scope : {ListenScope::loopback, ListenScope::all}) {
        const auto second = StoreHost::start(spec_on(scope, holder->port()), {});
        ASSERT_FALSE(second);
        EXPECT_THAT(second.error().message, HasSubstr(":" + std::to_string(holder->port())));
        EXPECT_THAT(second.error().message, HasSubstr("in use by pid " + std::to_string(getpid()) + " ("));
        EXPECT_EQ(second.error().kind, ErrorKind::failed);
    }
}

TEST(Listen, B69AnExplicitPortCanBeTakenAgainAtOnceAHundredTimes) {
    const std::uint16_t port = StoreHost::start(spec_on(ListenScope::loopback), {}).value()->port();
    for (int i = 0; i < 100; ++i) {
        const auto host = StoreHost::start(spec_on(ListenScope::loopback, port), {});
        ASSERT_TRUE(host) << "round " << i << ": " << host.error().message;
        EXPECT_EQ(host.value()->port(), port);
        RawClient client = greeted(port);
        EXPECT_EQ(client.add("/n", 1), 1);
    }
}

TEST(Listen, B69ThirtyStoresAtOnceHaveThirtyPorts) {
    std::vector<std::unique_ptr<StoreHost>> hosts;
    std::set<std::uint16_t> ports;
    for (int i = 0; i < 30; ++i) {
        hosts.push_back(StoreHost::start(spec_on(ListenScope::loopback), {}).value());
        ports.insert(hosts.back()->port());
    }
    EXPECT_EQ(ports.size(), 30U);
}

TEST(Listen, B70AReservedPortIsGivenToNobodyButWhoNamesIt) {
    const auto reserved = reserve_port();
    ASSERT_TRUE(reserved);
    EXPECT_FALSE(RawClient(reserved.value().port).connected()) << "it does not listen";
    for (int i = 0; i < 200; ++i) EXPECT_NE(reserve_port().value().port, reserved.value().port);
    const auto host = StoreHost::start(spec_on(ListenScope::all, reserved.value().port), {});
    ASSERT_TRUE(host) << host.error().message;
    EXPECT_EQ(greeted(reserved.value().port).add("/n", 2), 2);
}

/// Ports that nobody has just now, side by side.
PortRange free_ports(int count) {
    for (int first = 20'000; first < 30'000; first += count) {
        std::vector<BoundSockets> held;
        for (int i = 0; i < count; ++i) {
            auto bound = bind_sockets(ListenScope::all, static_cast<std::uint16_t>(first + i));
            if (!bound) break;
            held.push_back(std::move(bound).value());
        }
        if (held.size() == static_cast<std::size_t>(count)) return {held.front().port, held.back().port};
    }
    return {};
}

TEST(Listen, B70OfARangeThePortsAreTriedInOrder) {
    const PortRange range = free_ports(4);
    ASSERT_NE(range.first, 0);
    ListenSpec spec = spec_on(ListenScope::loopback);
    spec.port = range;
    std::vector<std::unique_ptr<StoreHost>> hosts;
    for (int i = 0; i < 4; ++i) {
        hosts.push_back(StoreHost::start(spec, {}).value());
        EXPECT_EQ(hosts.back()->port(), range.first + i);
    }
    const auto none = StoreHost::start(spec, {});
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().message, HasSubstr("no port from " + std::to_string(range.first) + " to " +
                                                std::to_string(range.last) + " is free to listen on"));
    hosts.erase(hosts.begin() + 1);
    EXPECT_EQ(StoreHost::start(spec, {}).value()->port(), range.first + 1);
}

TEST(Listen, B70OfARangeEachPortIsReservedOnceAndServedByWhoNamesIt) {
    const PortRange range = free_ports(3);
    ASSERT_NE(range.first, 0);
    std::vector<ReservedPort> reserved;
    for (int i = 0; i < 3; ++i) {
        reserved.push_back(reserve_port(range).value());
        EXPECT_EQ(reserved.back().port, range.first + i);
    }
    EXPECT_FALSE(reserve_port(range));
    const auto host = StoreHost::start(spec_on(ListenScope::all, range.first), {});
    ASSERT_TRUE(host) << host.error().message;
    EXPECT_EQ(greeted(range.first).add("/n", 2), 2);
}

TEST(Listen, B70ManyAtOnceShareARange) {
    const PortRange range = free_ports(16);
    ASSERT_NE(range.first, 0);
    std::vector<std::future<std::unique_ptr<StoreHost>>> starts;
    for (int i = 0; i < 16; ++i) {
        starts.push_back(std::async(std::launch::async, [range] {
            ListenSpec spec = spec_on(ListenScope::loopback);
            spec.port = range;
            return StoreHost::start(spec, {}).value();
        }));
    }
    std::set<std::uint16_t> ports;
    std::vector<std::unique_ptr<StoreHost>> hosts;
    for (auto& start : starts) {
        hosts.push_back(start.get());
        ports.insert(hosts.back()->port());
    }
    EXPECT_EQ(ports.size(), 16U);
}

TEST(Listen, AllowListsAreCheckedForShape) {
    for (const char* range : {"10.0.0.0/33", "fe80::/129", "10.0.0.0/", "host", "10.0.0/8", "", "1.2.3.4/-1"}) {
        EXPECT_FALSE(Cidr::parse(range)) << range;
    }
    const auto v4 = Cidr::parse("10.1.0.0/15").value();
    EXPECT_TRUE(v4.contains(parse_address("10.0.3.4", 1).value()));
    EXPECT_TRUE(v4.contains(parse_address("::ffff:10.1.255.255", 1).value()));
    EXPECT_FALSE(v4.contains(parse_address("10.2.0.0", 1).value()));
    const auto v6 = Cidr::parse("fd00::/8").value();
    EXPECT_TRUE(v6.contains(parse_address("fdff::1", 1).value()));
    EXPECT_FALSE(v6.contains(parse_address("10.0.0.1", 1).value()));
    EXPECT_TRUE(Cidr::parse("0.0.0.0/0").value().contains(parse_address("8.8.8.8", 1).value()));
    EXPECT_FALSE(Cidr::parse("0.0.0.0/0").value().contains(parse_address("fd00::1", 1).value()));
    EXPECT_TRUE(Cidr::parse("1.2.3.4").value().contains(parse_address("1.2.3.4", 1).value()));
}

TEST(Listen, ThisMachineIsAlwaysAllowed) {
    ListenSpec spec;
    spec.allow_cidrs = {"192.0.2.0/24"};
    const auto host = StoreHost::start(spec, {}).value();
    EXPECT_EQ(greeted(host->port()).add("/n", 1), 1);
}

}  // namespace
}  // namespace cpprun::test
