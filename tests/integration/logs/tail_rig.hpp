// SPDX-License-Identifier: BSD-3-Clause
// What the tests of the log part share: a scratch directory, consoles that can be read, and real worker processes.
#pragma once

#include "runtime/logs/log_files.hpp"
#include "runtime/logs/tail.hpp"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <spawn.h>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern char** environ;

namespace cpprun::testing_support {

using namespace std::chrono_literals;

/// Nothing in these tests takes so long unless it hangs.
inline constexpr auto hang_bound = 60s;

class ScratchDirectory {
  public:
    ScratchDirectory() {
        std::string pattern = (std::filesystem::temp_directory_path() / "cpprun_logs_XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~ScratchDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    ScratchDirectory(const ScratchDirectory&) = delete;
    ScratchDirectory& operator=(const ScratchDirectory&) = delete;
    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

inline std::string contents(const std::string& path) {
    std::ostringstream text;
    std::ifstream file(path, std::ios::binary);
    if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
    return text.str();
}

inline std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

/// A pipe with its reading end here.
class PipeConsole {
  public:
    PipeConsole() {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
        read_end_.reset(ends[0]);
        write_end_.reset(ends[1]);
    }
    int fd() const { return write_end_.get(); }
    void close_reader() { read_end_.reset(); }
    void close_writer() { write_end_.reset(); }

    /// Waits until `bytes` more are there or the pipe has ended, and returns what came.
    std::string read(std::size_t bytes) {
        std::string text;
        std::array<char, 65536> buffer{};
        while (text.size() < bytes) {
            const auto got = ::read(read_end_.get(), buffer.data(), std::min(buffer.size(), bytes - text.size()));
            if (got <= 0) break;
            text.append(buffer.data(), static_cast<std::size_t>(got));
        }
        return text;
    }
    /// All that is still to come, as long as the writing end here has been closed.
    std::string read_all() { return read(std::string::npos); }

  private:
    UniqueFd read_end_;
    UniqueFd write_end_;
};

/// Starts `sh -c script` with the stream's targets; returns its pid. `rank` is there as $RANK.
inline pid_t start_worker(const std::string& script, const WorkerLogs& logs) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (logs.out.file) posix_spawn_file_actions_adddup2(&actions, logs.out.file.get(), 1);
    if (logs.err.file) posix_spawn_file_actions_adddup2(&actions, logs.err.file.get(), 2);
    const std::string with_rank = "RANK=" + std::to_string(logs.local_rank) + "; " + script;
    std::array<const char*, 4> argv{"sh", "-c", with_rank.c_str(), nullptr};
    pid_t pid = -1;
    const int error = ::posix_spawn(&pid, "/bin/sh", &actions, nullptr, const_cast<char* const*>(argv.data()), environ);
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(error, 0);
    return pid;
}

inline int wait_for(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/// A Tail whose executor runs on the test's thread while it waits.
class TailRig {
  public:
    explicit TailRig(TailOptions options) {
        options.on_error = [this](const std::string& text) { problems.push_back(text); };
        tail.emplace(io.get_executor(), std::move(options));
    }

    /// Drains, and returns whether that ended.
    bool drain(std::chrono::milliseconds bound = hang_bound) {
        const auto done = std::make_shared<bool>(false);
        tail->drain([done] { *done = true; });
        return run_until(bound, [done] { return *done; });
    }

    /// Runs callbacks until `reached`, at most for `bound`.
    template <class Predicate>
    bool run_until(std::chrono::milliseconds bound, Predicate reached) {
        const auto end = std::chrono::steady_clock::now() + bound;
        while (!reached() && std::chrono::steady_clock::now() < end) {
            io.restart();
            io.run_one_for(20ms);
        }
        return reached();
    }

    boost::asio::io_context io;
    std::vector<std::string> problems;
    std::optional<Tail> tail;
};

}  // namespace cpprun::testing_support
