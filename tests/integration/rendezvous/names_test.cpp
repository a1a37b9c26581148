// SPDX-License-Identifier: BSD-3-Clause
// Names of hosts: which addresses they have, whether they are this machine, and how long anybody waits to learn it.
#include "integration/rendezvous/coroutines.hpp"
#include "runtime/os/host_name.hpp"
#include "runtime/rendezvous/host_choice.hpp"
#include "runtime/rendezvous/name_lookup.hpp"
#include "support/temp_dir.hpp"

#include <gmock/gmock.h>

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cpprun::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::Contains;
using testing::HasSubstr;

TEST(LookUp, OfANumericAddressAsksNobody) {
    Loop loop;
    for (const auto& [text, v6] : std::initializer_list<std::pair<const char*, bool>>{
             {"127.0.0.1", false}, {"10.77.0.200", false}, {"::1", true}, {"fd77::5", true}}) {
        // Not even time is needed.
        const auto found = loop.run(look_up(loop.io.get_executor(), text, 29500, Clock::now() - 1s));
        ASSERT_TRUE(found) << text << ": " << found.error().message;
        ASSERT_EQ(found.value().size(), 1U);
        EXPECT_EQ(found.value()[0].address().to_string(), text);
        EXPECT_EQ(found.value()[0].address().is_v6(), v6);
        EXPECT_EQ(found.value()[0].port(), 29500);
    }
}

TEST(LookUp, KnowsLocalhost) {
    Loop loop;
    const auto found = loop.run(look_up(loop.io.get_executor(), "localhost", 7, Clock::now() + 30s));
    ASSERT_TRUE(found) << found.error().message;
    for (const auto& endpoint : found.value()) {
        EXPECT_TRUE(endpoint.address().is_loopback());
        EXPECT_EQ(endpoint.port(), 7);
    }
}

TEST(LookUp, OfAnUnknownNameSaysSo) {
    Loop loop;
    for (const char* name : {"no-such-host.invalid", "..", "a b"}) {
        const auto found = loop.run(look_up(loop.io.get_executor(), name, 7, Clock::now() + 30s));
        ASSERT_FALSE(found) << name;
        EXPECT_THAT(found.error().message, HasSubstr(name));
    }
}

/// Runs `act` in a child whose only name server takes questions and never answers. 77: not possible here.
int with_silent_name_server(const std::function<int()>& act) {
    const TempDir dir;
    const std::string resolv = dir.write("resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:2\n");
    const pid_t child = ::fork();
    if (child == 0) {
        if (::unshare(CLONE_NEWNS | CLONE_NEWNET) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount(resolv.c_str(), "/etc/resolv.conf", nullptr, MS_BIND, nullptr) != 0)
            ::_exit(77);
        const int control = ::socket(AF_INET, SOCK_DGRAM, 0);
        ifreq request{};
        std::snprintf(request.ifr_name, sizeof request.ifr_name, "lo");
        request.ifr_flags = IFF_UP;
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(53);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::ioctl(control, SIOCSIFFLAGS, &request) != 0 ||
            ::bind(control, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            ::_exit(77);
        ::_exit(act());
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(LookUp, IsBoundedWhenTheResolverIsSlow) {
    const int code = with_silent_name_server([] {
        Loop loop;
        const auto begin = Clock::now();
        const auto found = loop.run(look_up(loop.io.get_executor(), "some-host.example", 7, begin + 300ms));
        if (found || found.error().message.find("has not answered") == std::string::npos) return 1;
        if (since(begin) > 5s) return 2;
        // A second question waits no longer for the first one.
        const auto second = Clock::now();
        const auto choice = loop.run(choose_host(loop.io.get_executor(), "other-host.example", "me", 300ms));
        if (choice.is_host || since(second) > 5s) return 3;
        return 0;
    });
    if (code == 77) GTEST_SKIP() << "namespaces are for root";
    EXPECT_EQ(code, 0);
}

class Choice : public testing::Test {
  protected:
    HostChoice choose(const std::string& endpoint, const std::string& own = "some-name") {
        return loop.run(choose_host(loop.io.get_executor(), endpoint, own, 20s));
    }
    Loop loop;
};

TEST_F(Choice, EveryAddressOfThisMachineIsThisMachine) {
    const auto addresses = interface_addresses();
    EXPECT_THAT(addresses, Contains("127.0.0.1"));
    for (const std::string& address : addresses) EXPECT_TRUE(choose(address).is_host) << address;
    for (const char* address :
         {"localhost", "LocalHost", "127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"})
        EXPECT_TRUE(choose(address).is_host) << address;
}

TEST_F(Choice, SoIsItsNameInAnyCase) {
    EXPECT_TRUE(choose("Node7.Example", "node7.example").is_host);
    EXPECT_FALSE(choose("node7.invalid", "").is_host);
}

TEST_F(Choice, AnAddressOfNobodyHereIsAnotherMachine) {
    const HostChoice choice = choose("192.0.2.77");
    EXPECT_FALSE(choice.is_host);
    EXPECT_THAT(choice.reason, HasSubstr("192.0.2.77"));
    EXPECT_FALSE(choose("2001:db8::77").is_host);
}

TEST_F(Choice, ANameThatDoesNotResolveIsAnotherMachine) {
    const HostChoice choice = choose("no-such-host.invalid");
    EXPECT_FALSE(choice.is_host);
    EXPECT_THAT(choice.reason, HasSubstr("no-such-host.invalid"));
}

TEST_F(Choice, LoopbackIsNothingToTellOthers) {
    EXPECT_EQ(choose("127.0.0.1").address, "");
    for (const std::string& address : interface_addresses())
        if (!address.starts_with("127.") && address != "::1") EXPECT_EQ(choose(address).address, address);
}

TEST(ReachableAddress, IsTheOneThatOurConnectionHas) {
    EXPECT_EQ(reachable_address("10.1.2.3", "node0"), "10.1.2.3");
    EXPECT_EQ(reachable_address("fd77::1", "node0"), "fd77::1");
}

TEST(ReachableAddress, IsLoopbackOnlyInAJobOfOneMachine) {
    EXPECT_EQ(reachable_address("127.0.0.1", "localhost"), "127.0.0.1");
    EXPECT_EQ(reachable_address("::1", "::1"), "::1");
    EXPECT_EQ(reachable_address("127.0.0.1", "127.0.0.1"), "127.0.0.1");
    const std::string other = reachable_address("127.0.0.1", "node0.example");
    bool only_loopback = true;
    for (const std::string& address : interface_addresses())
        only_loopback =
            only_loopback && (address.starts_with("127.") || address == "::1" || address.starts_with("fe80"));
    EXPECT_EQ(other == "127.0.0.1", only_loopback) << other;
    if (!only_loopback) EXPECT_THAT(interface_addresses(), Contains(other));
}

TEST(ReachableAddress, IsSomethingAlsoWithoutAConnection) {
    EXPECT_NE(reachable_address("", "node0.example"), "");
    EXPECT_EQ(reachable_address("", "localhost"), "127.0.0.1");
}

}  // namespace
}  // namespace cpprun::test
