// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/os/whole_io.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace cpprun {
namespace {

TEST(KernelFile, IsReadToItsEnd) {
    EXPECT_TRUE(kernel_file("/proc/self/status").value_or("").starts_with("Name:"));
    EXPECT_GT(kernel_file("/proc/self/smaps").value_or("").size(), 4096U);
}

TEST(KernelFile, IsNoneWhereThereIsNone) {
    EXPECT_EQ(kernel_file("/proc/0/stat"), std::nullopt);
}

TEST(KernelFile, IsNoneWhereItOpensAndCannotBeRead) {
    EXPECT_EQ(kernel_file("/proc/self"), std::nullopt);
}

TEST(KernelFile, EndsWithItsProcessAndNeverByAnException) {
    for (int round = 0; round < 200; ++round) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::pause();
            ::_exit(0);
        }
        const std::string path = "/proc/" + std::to_string(child) + "/stat";
        std::jthread killer([child] {
            ::kill(child, SIGKILL);
            ::waitpid(child, nullptr, 0);
        });
        while (const auto text = kernel_file(path)) EXPECT_TRUE(text->starts_with(std::to_string(child)));
    }
}

}  // namespace
}  // namespace cpprun
