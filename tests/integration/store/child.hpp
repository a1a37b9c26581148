// SPDX-License-Identifier: BSD-3-Clause
// A child process whose first line of output is a number, usually its port. Killed and reaped with its owner.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <fcntl.h>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace cpprun::test {

class Child {
  public:
    /// `descriptors_max` > 0 limits the child's descriptors.
    explicit Child(const std::vector<std::string>& command, unsigned descriptors_max = 0) {
        int output[2];
        int input[2];
        EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
        EXPECT_EQ(pipe2(input, O_CLOEXEC), 0);
        std::vector<char*> arguments;
        for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
        arguments.push_back(nullptr);
        pid_ = fork();
        if (pid_ == 0) {
            dup2(output[1], 1);
            dup2(input[0], 0);
            const rlimit limit{descriptors_max, descriptors_max};
            if (descriptors_max > 0) setrlimit(RLIMIT_NOFILE, &limit);
            execvp(arguments[0], arguments.data());
            _exit(127);
        }
        close(output[1]);
        close(input[0]);
        input_ = input[1];
        output_ = fdopen(output[0], "r");
        if (fscanf(output_, "%d", &number_) != 1) number_ = 0;
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        kill_now();
        close(input_);
        fclose(output_);
    }

    int number() const { return number_; }
    std::uint16_t port() const { return static_cast<std::uint16_t>(number_); }
    pid_t pid() const { return pid_; }
    void kill_now() {
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

  private:
    pid_t pid_ = 0;
    int input_ = -1;
    FILE* output_ = nullptr;
    int number_ = 0;
};

}  // namespace cpprun::test
