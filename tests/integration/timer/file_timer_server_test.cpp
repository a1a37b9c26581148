// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/timer/file_timer_server.hpp"

#include "runtime/os/unique_fd.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace cpprun {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class FileTimerServerTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "cpprun-timer-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        directory_ = name;
        path_ = directory_ + "/fifo";
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    Result<FileTimerServer> start() {
        return FileTimerServer::start(context_, path_,
                                      {[this](const ExpiredTimer& timer) { expired_.push_back(timer); },
                                       [this](const std::string& remark) { remarks_.push_back(remark); }});
    }

    /// Runs the loop until `done`; false when that takes unbearably long.
    template <class Done>
    bool run_until(Done done) {
        const auto give_up = std::chrono::steady_clock::now() + 60s;
        while (!done() && std::chrono::steady_clock::now() < give_up) {
            context_.restart();
            context_.run_one_for(100ms);
        }
        return done();
    }

    UniqueFd open_as_client() const { return UniqueFd(::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)); }

    static void send(const UniqueFd& fd, const std::string& text) {
        ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }

    static std::string request(const std::string& scope, double seconds_from_now, int signal = 9) {
        const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
        return "{\"version\": 1, \"pid\": 4242, \"scope_id\": \"" + scope +
               "\", \"expiration_time\": " + std::to_string(now + seconds_from_now) +
               ", \"signal\": " + std::to_string(signal) + "}\n";
    }

    boost::asio::io_context context_;
    std::string directory_, path_;
    std::vector<ExpiredTimer> expired_;
    std::vector<std::string> remarks_;
};

TEST_F(FileTimerServerTest, TheFifoIsOursAloneAndGoesWithTheServer) {
    {
        auto server = start().value();
        struct stat status {};
        ASSERT_EQ(::lstat(path_.c_str(), &status), 0);
        EXPECT_TRUE(S_ISFIFO(status.st_mode));
        EXPECT_EQ(status.st_mode & 07777, 0600U);
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(FileTimerServerTest, ATimerThatRunsOutIsReported) {
    auto server = start().value();
    const UniqueFd client = open_as_client();
    send(client, request("step", 0.05, 15));
    ASSERT_TRUE(run_until([&] { return !expired_.empty(); }));
    EXPECT_EQ(expired_.front().pid, 4242);
    EXPECT_EQ(expired_.front().signal, 15);
    EXPECT_EQ(expired_.front().scope, "step");
}

TEST_F(FileTimerServerTest, AClientThatKeepsTheFifoOpenBlocksNobody) {
    auto server = start().value();
    const UniqueFd idle = open_as_client();
    ASSERT_TRUE(idle);
    {
        const UniqueFd other = open_as_client();
        send(other, request("a", 0.01));
    }
    ASSERT_TRUE(run_until([&] { return expired_.size() == 1; }));
    {
        const UniqueFd other = open_as_client();
        send(other, request("b", 0.01));
    }
    ASSERT_TRUE(run_until([&] { return expired_.size() == 2; }));
}

TEST_F(FileTimerServerTest, AReleasedTimerAndOneOfADeadProcessStaySilent) {
    auto server = start().value();
    const UniqueFd client = open_as_client();
    send(client, request("released", 0.2) +
                     R"({"version": 1, "pid": 4242, "scope_id": "released", "expiration_time": -1, "signal": 0})" +
                     "\n" + "a remark says that this was read\n");
    ASSERT_TRUE(run_until([&] { return remarks_.size() == 1; }));
    send(client, request("forgotten", 1) + "so does this\n");
    ASSERT_TRUE(run_until([&] { return remarks_.size() == 2; }));
    server.forget(4242);
    send(client, request("last", 1.2));
    ASSERT_TRUE(run_until([&] { return !expired_.empty(); }));
    EXPECT_EQ(expired_.front().scope, "last");
}

TEST_F(FileTimerServerTest, NonsenseIsRemarkedAndSurvived) {
    auto server = start().value();
    const UniqueFd client = open_as_client();
    send(client, "nonsense\n" + request("a", 0));
    ASSERT_TRUE(run_until([&] { return !expired_.empty(); }));
    ASSERT_EQ(remarks_.size(), 1U);
    EXPECT_THAT(remarks_.front(), HasSubstr("timer request ignored, not a JSON object: nonsense"));
}

TEST_F(FileTimerServerTest, AfterStopNothingIsReportedAndTheLoopRunsDry) {
    auto server = start().value();
    const UniqueFd client = open_as_client();
    send(client, request("a", 0));
    server.stop();
    server.stop();
    context_.run_for(60s);
    EXPECT_TRUE(context_.stopped());
    EXPECT_TRUE(expired_.empty());
}

TEST_F(FileTimerServerTest, TheOwnerMayStopItFromACallback) {
    std::unique_ptr<FileTimerServer> server;
    int calls = 0;
    server = std::make_unique<FileTimerServer>(FileTimerServer::start(context_, path_,
                                                                      {[&](const ExpiredTimer&) {
                                                                           ++calls;
                                                                           server->stop();
                                                                       },
                                                                       [](const std::string&) {}})
                                                   .value());
    const UniqueFd client = open_as_client();
    std::string second = request("b", 0);
    second.replace(second.find("4242"), 4, "4243");
    send(client, request("a", 0) + second);
    context_.run_for(60s);
    EXPECT_TRUE(context_.stopped());
    EXPECT_EQ(calls, 1);
}

TEST_F(FileTimerServerTest, AnOldFifoIsReplaced) {
    ASSERT_EQ(::mkfifo(path_.c_str(), 0666), 0);
    auto server = start().value();
    struct stat status {};
    ASSERT_EQ(::lstat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600U);
}

TEST_F(FileTimerServerTest, AnythingElseThatIsThereStays) {
    std::ofstream(path_) << "precious";
    const auto file = start();
    ASSERT_FALSE(file);
    EXPECT_THAT(file.error().message, HasSubstr("something that is no FIFO is there"));
    EXPECT_EQ(std::filesystem::file_size(path_), 8U);
    std::filesystem::remove(path_);
    std::filesystem::create_symlink("elsewhere", path_);
    EXPECT_FALSE(start());
    path_ = directory_ + "/no/such/directory";
    EXPECT_FALSE(start());
}

TEST_F(FileTimerServerTest, AFileThatTookTheFifosPlaceIsNotRemoved) {
    auto server = start().value();
    std::filesystem::remove(path_);
    std::ofstream(path_) << "precious";
    server.stop();
    EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(FileTimerServerTest, FreshPathsDiffer) {
    EXPECT_THAT(fresh_timer_path("/tmp"), HasSubstr("/tmp/watchdog_timer_"));
    EXPECT_NE(fresh_timer_path("/tmp"), fresh_timer_path("/tmp"));
}

TEST_F(FileTimerServerTest, TorchsOwnClientSetsAndReleasesTimers) {
    const char* python = CPPRUN_TEST_PYTHON;
    if (::access(python, X_OK) != 0) GTEST_SKIP() << python << " is not there; scripts/test makes it";
    auto server = start().value();
    const std::string script = directory_ + "/client.py";
    std::ofstream(script) << "import os, signal, sys, time\n"
                             "from torch.distributed.elastic import timer\n"
                             "client = timer.FileTimerClient(sys.argv[1], signal.SIGUSR1)\n"
                             "client.acquire('released', time.time() + 2)\n"
                             "client.release('released')\n"
                             "timer.configure(client)\n"
                             "with timer.expires(after=2, scope='also released'):\n"
                             "    pass\n"
                             "client.acquire('kept', time.time() + 2.2)\n"
                             "print(os.getpid(), flush=True)\n";
    const std::string command = std::string(python) + " " + script + " " + path_;
    const std::unique_ptr<FILE, int (*)(FILE*)> client(::popen(command.c_str(), "re"), ::pclose);
    ASSERT_TRUE(client);
    ASSERT_TRUE(run_until([&] { return !expired_.empty(); })) << remarks_.size();
    int pid = 0;
    ASSERT_EQ(std::fscanf(client.get(), "%d", &pid), 1);
    ASSERT_EQ(expired_.size(), 1U);
    EXPECT_EQ(expired_.front().scope, "kept");
    EXPECT_EQ(expired_.front().pid, pid);
    EXPECT_EQ(expired_.front().signal, SIGUSR1);
    EXPECT_TRUE(remarks_.empty());
}

}  // namespace
}  // namespace cpprun
