// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/node_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace cpprun {
namespace {

TEST(NodeOrder, CountsNumbersInHostNames) {
    const std::vector<std::string> sorted{
        "",      "10.0.0.2", "10.0.0.10", "a",      "a1b2",    "a1b10",    "a2",
        "node",  "node-1",   "node2",     "node10", "node10a", "node010b", "node18446744073709551617",
        "nodeA", "z"};
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        for (std::size_t j = 0; j < sorted.size(); ++j) {
            EXPECT_TRUE(natural_order(sorted[i], sorted[j]) == (i <=> j)) << sorted[i] << " and " << sorted[j];
        }
    }
}

TEST(NodeOrder, TellsLeadingZerosApart) {
    EXPECT_TRUE(std::is_lt(natural_order("n01", "n1")));
    EXPECT_TRUE(std::is_lt(natural_order("n1", "n02")));
    EXPECT_TRUE(std::is_lt(natural_order("n1", "n01x")));
    EXPECT_TRUE(std::is_eq(natural_order("n01", "n01")));
}

TEST(NodeOrder, GoesOnWithPidAndLocalId) {
    const NodeId node{"n2", 10, 1};
    EXPECT_TRUE(std::is_lt(natural_order(node, NodeId{"n10", 1, 0})));
    EXPECT_TRUE(std::is_gt(natural_order(node, NodeId{"n2", 9, 2})));
    EXPECT_TRUE(std::is_lt(natural_order(node, NodeId{"n2", 10, 2})));
    EXPECT_TRUE(std::is_eq(natural_order(node, NodeId{"n2", 10, 1})));
    EXPECT_FALSE(NaturalLess{}(node, node));
}

// Any three short texts of few characters: no circles, and equal only when the same.
TEST(NodeOrder, IsTotal) {
    std::mt19937 random(7);
    const std::string characters = "019a-~\xc3";
    const auto text = [&] {
        std::string made;
        for (auto length = random() % 5; length > 0; --length) made.push_back(characters[random() % characters.size()]);
        return made;
    };
    for (int i = 0; i < 200'000; ++i) {
        const std::string a = text();
        const std::string b = text();
        const std::string c = text();
        ASSERT_EQ(natural_order(a, b) == 0, a == b) << a << " and " << b;
        ASSERT_EQ(natural_order(a, b) < 0, natural_order(b, a) > 0) << a << " and " << b;
        if (natural_order(a, b) < 0 && natural_order(b, c) < 0) {
            ASSERT_TRUE(std::is_lt(natural_order(a, c))) << a << ", " << b << ", " << c;
        }
    }
}

}  // namespace
}  // namespace cpprun
