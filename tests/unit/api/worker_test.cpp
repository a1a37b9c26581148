// SPDX-License-Identifier: BSD-3-Clause
#include <cpprun/worker.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

using cpprun::Place;
using cpprun::PlaceError;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Variables second_of_two() {
    return {{"RANK", "3"},
            {"WORLD_SIZE", "4"},
            {"LOCAL_RANK", "1"},
            {"LOCAL_WORLD_SIZE", "2"},
            {"GROUP_RANK", "1"},
            {"GROUP_WORLD_SIZE", "2"},
            {"ROLE_RANK", "3"},
            {"ROLE_WORLD_SIZE", "4"},
            {"ROLE_NAME", "trainer"},
            {"MASTER_ADDR", "::1"},
            {"MASTER_PORT", "29500"},
            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
            {"TORCHELASTIC_RESTART_COUNT", "2"},
            {"TORCHELASTIC_MAX_RESTARTS", "5"},
            {"TORCHELASTIC_RUN_ID", "job7"}};
}

Place place_of(const Variables& variables) {
    return cpprun::place_from([&variables](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

std::string refusal_of(Variables variables, const std::string& name, const std::string& value) {
    variables[name] = value;
    try {
        place_of(variables);
    } catch (const PlaceError& error) {
        return error.what();
    }
    return "accepted";
}

class ErrorFile : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (std::filesystem::temp_directory_path() / "cpprun-worker-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        ASSERT_EQ(::setenv("TORCHELASTIC_ERROR_FILE", path().c_str(), 1), 0);
    }
    void TearDown() override {
        ::unsetenv("TORCHELASTIC_ERROR_FILE");
        std::filesystem::remove_all(folder_);
    }

    std::string path() const { return folder_ + "/error.json"; }
    nlohmann::json contents() const {
        std::ifstream file(path());
        return nlohmann::json::parse(file);
    }
    std::size_t files_in_folder() const {
        const std::filesystem::directory_iterator files(folder_);
        return static_cast<std::size_t>(std::distance(begin(files), end(files)));
    }

    std::string folder_;
};

TEST(PlaceInTheWorld, IsReadFromEveryVariable) {
    const Place place = place_of(second_of_two());
    EXPECT_EQ(place.rank, 3);
    EXPECT_EQ(place.world_size, 4);
    EXPECT_EQ(place.local_rank, 1);
    EXPECT_EQ(place.local_world_size, 2);
    EXPECT_EQ(place.group_rank, 1);
    EXPECT_EQ(place.group_world_size, 2);
    EXPECT_EQ(place.role_rank, 3);
    EXPECT_EQ(place.role_world_size, 4);
    EXPECT_EQ(place.role_name, "trainer");
    EXPECT_EQ(place.master_addr, "::1");
    EXPECT_EQ(place.master_port, 29500);
    EXPECT_TRUE(place.agent_store);
    EXPECT_EQ(place.restart_count, 2);
    EXPECT_EQ(place.max_restarts, 5);
    EXPECT_EQ(place.run_id, "job7");
}

TEST(PlaceInTheWorld, NeedsOnlyWhatEveryLauncherGives) {
    const Place place = place_of({{"RANK", "1"},
                                  {"WORLD_SIZE", "2"},
                                  {"LOCAL_RANK", "1"},
                                  {"LOCAL_WORLD_SIZE", "2"},
                                  {"MASTER_ADDR", "localhost"},
                                  {"MASTER_PORT", "1"}});
    EXPECT_EQ(place.role_rank, 1);
    EXPECT_EQ(place.role_world_size, 2);
    EXPECT_EQ(place.group_world_size, 1);
    EXPECT_FALSE(place.agent_store);
    EXPECT_EQ(place.restart_count, 0);
}

TEST(PlaceInTheWorld, NamesTheVariableThatIsMissing) {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
        Variables variables = second_of_two();
        variables.erase(name);
        try {
            place_of(variables);
            ADD_FAILURE() << name << " was not missed";
        } catch (const PlaceError& error) {
            EXPECT_THAT(error.what(), HasSubstr(std::string(name) + " is not set"));
            EXPECT_THAT(error.what(), HasSubstr("cpprun --nproc-per-node"));
        }
    }
}

TEST(PlaceInTheWorld, NamesTheValueThatIsMalformed) {
    const Variables good = second_of_two();
    EXPECT_EQ(refusal_of(good, "RANK", "two"), "RANK=two: not a whole number");
    EXPECT_EQ(refusal_of(good, "RANK", ""), "RANK=: not a whole number");
    EXPECT_EQ(refusal_of(good, "RANK", "1 "), "RANK=1 : not a whole number");
    EXPECT_EQ(refusal_of(good, "RANK", "4"), "RANK=4: not in 0 to 3");
    EXPECT_EQ(refusal_of(good, "RANK", "-1"), "RANK=-1: not in 0 to 3");
    EXPECT_EQ(refusal_of(good, "LOCAL_RANK", "2"), "LOCAL_RANK=2: not in 0 to 1");
    EXPECT_EQ(refusal_of(good, "LOCAL_WORLD_SIZE", "5"), "LOCAL_WORLD_SIZE=5: not in 1 to 4");
    EXPECT_EQ(refusal_of(good, "WORLD_SIZE", "99999999999"), "WORLD_SIZE=99999999999: not a whole number");
    EXPECT_EQ(refusal_of(good, "MASTER_PORT", "65536"), "MASTER_PORT=65536: not in 1 to 65535");
    EXPECT_EQ(refusal_of(good, "TORCHELASTIC_RESTART_COUNT", "x"), "TORCHELASTIC_RESTART_COUNT=x: not a whole number");
    EXPECT_THAT(refusal_of(good, "MASTER_ADDR", ""), HasSubstr("MASTER_ADDR is empty"));
}

TEST(PlaceInTheWorld, TakesOnlyTorchsSpellingForAnAgentStore) {
    Variables variables = second_of_two();
    for (const char* no : {"False", "true", "1", ""}) {
        variables["TORCHELASTIC_USE_AGENT_STORE"] = no;
        EXPECT_FALSE(place_of(variables).agent_store) << no;
    }
}

TEST_F(ErrorFile, PassesTheExitCodeOfABodyThatDoesNotThrow) {
    EXPECT_EQ(cpprun::run_recorded([] { return 7; }), 7);
    EXPECT_EQ(files_in_folder(), 0U);
}

TEST_F(ErrorFile, HoldsWhatWasThrownInTorchsFormat) {
    EXPECT_EQ(cpprun::run_recorded([]() -> int { throw std::runtime_error("boom"); }), 1);
    const nlohmann::json message = contents().at("message");
    EXPECT_EQ(message.at("message"), "std::runtime_error: boom");
    EXPECT_EQ(message.at("extraInfo").at("py_callstack"), "std::runtime_error: boom\n");
    EXPECT_GT(std::stoll(message.at("extraInfo").at("timestamp").get<std::string>()), 1'600'000'000);
    EXPECT_EQ(files_in_folder(), 1U);
}

TEST_F(ErrorFile, TellsTheCausesOfANestedException) {
    cpprun::run_recorded([]() -> int {
        try {
            throw std::out_of_range("index 9");
        } catch (...) {
            std::throw_with_nested(std::logic_error("reading the shard"));
        }
    });
    const std::string details = contents().at("message").at("extraInfo").at("py_callstack");
    EXPECT_EQ(details, "std::logic_error: reading the shard\ncaused by std::out_of_range: index 9\n");
}

TEST_F(ErrorFile, IsWrittenForAnExceptionOfAnyType) {
    EXPECT_EQ(cpprun::run_recorded([]() -> int { throw 42; }), 1);
    EXPECT_EQ(contents().at("message").at("message"), "an exception that is no std::exception");
}

TEST_F(ErrorFile, IsJsonAlsoWhenTheTextIsNoUtf8) {
    ASSERT_TRUE(cpprun::write_error_file(path(), "bad \xff byte", "a \"quote\"\n", 5));
    EXPECT_EQ(contents().at("message").at("message"), "bad \xEF\xBF\xBD byte");
    EXPECT_EQ(contents().at("message").at("extraInfo").at("py_callstack"), "a \"quote\"\n");
    EXPECT_EQ(contents().at("message").at("extraInfo").at("timestamp"), "5");
}

TEST_F(ErrorFile, ReplacesAnOlderOne) {
    ASSERT_TRUE(cpprun::write_error_file(path(), "first, and longer", "", 1));
    ASSERT_TRUE(cpprun::write_error_file(path(), "second", "", 2));
    EXPECT_EQ(contents().at("message").at("message"), "second");
    EXPECT_EQ(files_in_folder(), 1U);
}

TEST_F(ErrorFile, IsNotWrittenWhenNoneIsAskedFor) {
    ::setenv("TORCHELASTIC_ERROR_FILE", "", 1);
    EXPECT_EQ(cpprun::run_recorded([]() -> int { throw std::runtime_error("boom"); }), 1);
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    EXPECT_EQ(cpprun::run_recorded([]() -> int { throw std::runtime_error("boom"); }), 1);
    EXPECT_EQ(files_in_folder(), 0U);
}

TEST_F(ErrorFile, SaysWhenItCannotBeWritten) {
    EXPECT_FALSE(cpprun::write_error_file(folder_ + "/not/there/error.json", "boom", "", 1));
    EXPECT_EQ(errno, ENOENT);
}

TEST(Heartbeat, IsADatagramToTheSocketThatTheEnvironmentNames) {
    const std::string path = (std::filesystem::temp_directory_path() / ("beat" + std::to_string(::getpid()))).string();
    const int listener = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::setenv("CPPRUN_HEARTBEAT_SOCKET", path.c_str(), 1);
    EXPECT_TRUE(cpprun::send_heartbeat());
    char byte = 0;
    EXPECT_EQ(::recv(listener, &byte, 1, 0), 0);
    int sent = 0;
    while (sent < 100'000 && cpprun::send_heartbeat()) ++sent;
    EXPECT_LT(sent, 100'000) << "a launcher that has fallen behind makes nobody wait";
    ::close(listener);
    EXPECT_FALSE(cpprun::send_heartbeat());
    std::filesystem::remove(path);
    ::setenv("CPPRUN_HEARTBEAT_SOCKET", std::string(500, 'x').c_str(), 1);
    EXPECT_FALSE(cpprun::send_heartbeat());
    ::unsetenv("CPPRUN_HEARTBEAT_SOCKET");
    EXPECT_FALSE(cpprun::send_heartbeat());
}

}  // namespace
