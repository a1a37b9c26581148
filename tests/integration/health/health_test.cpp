// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/health_record.hpp"
#include "integration/store/raw_client.hpp"
#include "runtime/health/health_file.hpp"
#include "runtime/health/health_server.hpp"
#include "runtime/store/listener.hpp"
#include "support/temp_dir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace cpprun {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::string content(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

HealthRecord record() {
    return {.phase = "joining", .in_phase = std::chrono::milliseconds(1500), .round = 3, .world_size = 8, .pid = 7};
}

TEST(HealthRecord, IsOneObjectOnOneLine) {
    const std::string line = health_json(record());
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["phase"], "joining");
    EXPECT_EQ(json["seconds_in_phase"], 1.5);
    EXPECT_EQ(json["round"], 3);
    EXPECT_EQ(json["world_size"], 8);
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    EXPECT_THAT(health_answer(record()), StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(health_answer(record()), EndsWith("\r\n\r\n" + line));
    EXPECT_THAT(health_answer(record()), HasSubstr("Content-Length: " + std::to_string(line.size()) + "\r\n"));
}

TEST(HealthFile, IsReplacedEachSecondAndLeavesNothingBeside) {
    const test::TempDir dir;
    const std::string path = dir / "health";
    boost::asio::io_context io;
    int written = 0;
    {
        const HealthFile file(io, path, [&] {
            if (++written == 3) io.stop();
            return std::to_string(written);
        });
        EXPECT_EQ(content(path), "1");
        io.run();
    }
    EXPECT_EQ(content(path), "3");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(HealthFile, ThatCannotBeWrittenIsNoReasonToFail) {
    boost::asio::io_context io;
    const HealthFile file(io, "/proc/no/such/file", [] { return "x"; });
    io.poll();
}

/// A server on a port of its own, with a thread.
class Health {
  public:
    Health() {
        auto reserved = bind_sockets(ListenScope::loopback, 0, {"127.0.0.1"});
        port = reserved.value().port;
        reserved.value().sockets.clear();
        server_ = HealthServer::start(io_, "127.0.0.1", port, [] { return health_answer(record()); }).value();
        thread_ = std::thread([this] { io_.run(); });
    }
    ~Health() {
        io_.stop();
        thread_.join();
    }
    std::string ask(const std::string& request) const {
        test::RawClient client(port);
        client.send(request);
        return client.read(65536);
    }
    std::uint16_t port = 0;

  private:
    boost::asio::io_context io_;
    std::unique_ptr<HealthServer> server_;
    std::thread thread_;
};

TEST(HealthServer, AnswersWhateverIsAsked) {
    const Health health;
    for (const char* request : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /health HTTP/1.0\r\n\r\n", "\r\n\r\n",
                                "POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\n"})
        EXPECT_EQ(health.ask(request), health_answer(record())) << request;
}

TEST(HealthServer, BytesThatAreNoRequestGetNoAnswerAndHurtNobody) {
    const Health health;
    EXPECT_EQ(health.ask(std::string(100'000, 'x')), "");
    EXPECT_EQ(health.ask(std::string("\0\xff\r\n", 4) + std::string(20'000, '\n')), "");
    EXPECT_EQ(health.ask("GET / HTTP/1.1\r\n\r\n"), health_answer(record()));
}

TEST(HealthServer, ManyWhoSayNothingAreCutOffAndOthersAreServedThen) {
    const Health health;
    std::vector<test::RawClient> silent;
    for (int i = 0; i < 100; ++i) silent.emplace_back(health.port);
    // One too many is closed at once, the others after a while.
    for (test::RawClient& client : silent) EXPECT_TRUE(client.closed_by_peer());
    EXPECT_EQ(health.ask("GET / HTTP/1.1\r\n\r\n"), health_answer(record()));
}

TEST(HealthServer, APortThatIsTakenIsAnErrorThatNamesIt) {
    const Health health;
    boost::asio::io_context io;
    const auto second = HealthServer::start(io, "127.0.0.1", health.port, [] { return "x"; });
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr(std::to_string(health.port)));
}

TEST(HealthServer, AnAddressOfAnotherMachineIsAnError) {
    boost::asio::io_context io;
    EXPECT_FALSE(HealthServer::start(io, "192.0.2.1", 0, [] { return "x"; }));
}

TEST(HealthServer, GoesWhileSomebodyIsConnected) {
    boost::asio::io_context io;
    auto reserved = bind_sockets(ListenScope::loopback, 0, {"127.0.0.1"});
    const std::uint16_t port = reserved.value().port;
    reserved.value().sockets.clear();
    auto server = HealthServer::start(io, "127.0.0.1", port, [] { return "x"; }).value();
    test::RawClient client(port);
    io.run_one();
    server.reset();
    client.send("GET / HTTP/1.1\r\n\r\n");
    io.run();
    EXPECT_EQ(client.read(100), "");
}

}  // namespace
}  // namespace cpprun
