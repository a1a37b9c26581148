// SPDX-License-Identifier: BSD-3-Clause
#include "cli/network_address.hpp"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <array>
#include <random>
#include <string>

namespace cpprun::test {
namespace {

std::optional<int> by_inet_pton(const std::string& text) {
    std::array<unsigned char, 16> bytes{};
    if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return 32;
    if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return 128;
    return std::nullopt;
}

TEST(NetworkAddress, TakesWhatInetPtonTakes) {
    for (const char* text : {"",
                             "1.2.3.4",
                             "1.2.3",
                             "1.2.3.4.",
                             "1.2.3.256",
                             "01.2.3.4",
                             "0.0.0.0",
                             "1.2.3.4.5",
                             ".1.2.3",
                             "1..2.3",
                             "::",
                             ":",
                             ":::",
                             "::1",
                             "1::",
                             "1::2",
                             "1:2:3:4:5:6:7:8",
                             "1:2:3:4:5:6:7",
                             "1:2:3:4:5:6:7::",
                             "::2:3:4:5:6:7:8",
                             "1::2:3:4:5:6:7:8",
                             "1:2:3:4:5:6:7:8::",
                             "1::2::3",
                             "::ffff:1.2.3.4",
                             "1:2:3:4:5:6:1.2.3.4",
                             "1:2:3:4:5:6:7:1.2.3.4",
                             "1.2.3.4::",
                             "::1.2.3.4:1",
                             "12345::",
                             "g::",
                             "1:",
                             ":1",
                             "FE80::A",
                             "::-1",
                             "+1.2.3.4"})
        EXPECT_EQ(address_width(text), by_inet_pton(text)) << text;
    std::mt19937 random(1);
    const std::array<std::string, 9> pieces{":", "::", ".", "0", "1", "25", "ffff", "a", "1.2.3.4"};
    for (int i = 0; i < 300'000; ++i) {
        std::string text;
        for (auto left = random() % 16; left > 0; --left) text += pieces[random() % pieces.size()];
        ASSERT_EQ(address_width(text), by_inet_pton(text)) << text;
    }
}

TEST(NetworkAddress, TakesBracketsAndAnInterface) {
    EXPECT_EQ(address_width("[::1]"), 128);
    EXPECT_EQ(address_width("fe80::1%eth0"), 128);
    EXPECT_EQ(address_width("fe80::1%"), std::nullopt);
    EXPECT_EQ(address_width("10.0.0.1%eth0"), std::nullopt);
    EXPECT_EQ(address_width("[::1"), std::nullopt);
    EXPECT_EQ(address_width("[]"), std::nullopt);
    EXPECT_EQ(address_width("localhost"), std::nullopt);
}

TEST(NetworkAddress, ANetworkMayHaveAPrefixLength) {
    for (const char* text : {"10.0.0.0/8", "10.0.0.0/0", "10.0.0.1/32", "10.0.0.1", "fd00::/8", "::/0", "::1/128"})
        EXPECT_TRUE(is_network(text)) << text;
    for (const char* text : {"", "/8", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8",
                             "10.0.0.0/+8", "10.0.0.0/ 8", "10/8", "host/8", "10.0.0.0/0008"})
        EXPECT_FALSE(is_network(text)) << text;
}

}  // namespace
}  // namespace cpprun::test
