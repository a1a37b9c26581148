// SPDX-License-Identifier: BSD-3-Clause
// Conversations recorded with real stores, replayed byte by byte.
#include "fixtures/store/conversation.hpp"
#include "unit/store/session_harness.hpp"

#include <gtest/gtest.h>

namespace cpprun::test {
namespace {

struct Recording {
    const char* file;
    std::optional<StoreGeneration> legacy;
};

class GoldenConversation : public testing::TestWithParam<Recording> {};

TEST_P(GoldenConversation, IsAnsweredByteByByteAsRecorded) {
    StoreHarness store({}, GetParam().legacy);
    std::map<int, std::string> inbox;
    const auto steps = read_conversation(GetParam().file);
    ASSERT_GT(steps.size(), 10U);
    for (const auto& step : steps) {
        std::string& read = inbox[step.client];
        if (step.to_server) {
            EXPECT_EQ(hex(read), "") << "unasked, before " << step.line;
            read = store.send(step.client, step.bytes);
        } else {
            EXPECT_EQ(hex(read + store.read(step.client)), hex(step.bytes)) << step.line;
            read.clear();
        }
        ASSERT_FALSE(store.rejected(step.client)) << store.fault(step.client);
    }
}

TEST_P(GoldenConversation, IsAnsweredTheSameWhenEveryByteComesAlone) {
    StoreHarness store({}, GetParam().legacy);
    std::map<int, std::string> inbox;
    for (const auto& step : read_conversation(GetParam().file)) {
        if (step.to_server) {
            for (const char byte : step.bytes) inbox[step.client] += store.send(step.client, {&byte, 1});
        } else {
            EXPECT_EQ(hex(std::exchange(inbox[step.client], {}) + store.read(step.client)), hex(step.bytes))
                << step.line;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Recorded, GoldenConversation,
                         testing::Values(Recording{"current.txt", std::nullopt},
                                         Recording{"current_two_clients.txt", std::nullopt},
                                         Recording{"a.txt", StoreGeneration::a},
                                         Recording{"b.txt", StoreGeneration::b}),
                         [](const auto& recording) {
                             const std::string file = recording.param.file;
                             return "File_" + file.substr(0, file.size() - 4);
                         });

}  // namespace
}  // namespace cpprun::test
