// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/os/host_name.hpp"

#include "support/temp_dir.hpp"

#include <gtest/gtest.h>

namespace cpprun {
namespace {

TEST(HostName, TheFullNameComesFromTheHostsFileAlone) {
    const test::TempDir dir;
    const std::string hosts = dir.write("hosts",
                                        "127.0.0.1 localhost localhost.localdomain vm\n"
                                        "# 10.0.0.9 node1.wrong node1\n"
                                        "10.0.0.1\tnode1.example.com node1   # comment\n");
    EXPECT_EQ(full_host_name("node1", hosts), "node1.example.com");
    EXPECT_EQ(full_host_name("vm", hosts), "vm");
    EXPECT_EQ(full_host_name("node2", hosts), "node2");
    EXPECT_EQ(full_host_name("node1", dir / "nothing"), "node1");
    EXPECT_FALSE(host_name().empty());
}

}  // namespace
}  // namespace cpprun
