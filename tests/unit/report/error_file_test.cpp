// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/error_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace cpprun {
namespace {

using testing::HasSubstr;

TEST(ErrorFile, ReadsWhatRecordWrites) {
    const auto record = parse_error_file(
        R"({"message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": "Traceback\n", "timestamp": "1796052228"}}})");
    ASSERT_TRUE(record.has_value());
    EXPECT_TRUE(record.value().dictionary_form);
    EXPECT_EQ(record.value().message, "RuntimeError: boom");
    EXPECT_EQ(record.value().traceback, "Traceback\n");
    EXPECT_EQ(record.value().timestamp, 1796052228);
}

TEST(ErrorFile, ReadsTheTextForm) {
    const auto record = parse_error_file(R"({"message": "plain text", "timestamp": "10"})").value();
    EXPECT_FALSE(record.dictionary_form);
    EXPECT_EQ(record.traceback, "plain text");
    EXPECT_EQ(record.timestamp, 10);
    EXPECT_EQ(parse_error_file(R"({"message": "x"})").value().timestamp, 0);
    EXPECT_EQ(parse_error_file(R"({"message": "x", "timestamp": 1.5e3})").value().timestamp, 1500);
}

TEST(ErrorFile, ADictionaryWithoutACallstackShowsItsMessage) {
    EXPECT_EQ(
        parse_error_file(R"({"message":{"message":"mm","extraInfo":{"timestamp":"1700000000"}}})").value().traceback,
        "mm");
    EXPECT_EQ(parse_error_file(R"({"message":{"extraInfo":{"timestamp":"1"}}})").value().traceback, "<N/A>");
}

TEST(ErrorFile, WhatIsBrokenIsNamedAndNotFatal) {
    for (const char* text : {"", R"({"mess)", "[1,2]", R"({"foo":1})", R"({"message":5})", "null", "\xff\xfe"}) {
        const auto record = parse_error_file(text);
        ASSERT_FALSE(record.has_value()) << text;
        EXPECT_FALSE(record.error().message.empty());
    }
    EXPECT_FALSE(parse_error_file(std::string(error_file_bytes_max + 1, ' ')).has_value());
}

TEST(ErrorFile, DeepAndHostileJsonIsSurvived) {
    EXPECT_FALSE(parse_error_file(std::string(200000, '[')).has_value());
    const std::string deep = R"({"message":)" + std::string(100000, '[') + std::string(100000, ']') + "}";
    EXPECT_FALSE(parse_error_file(deep).has_value());
    std::mt19937 random(3);
    const std::string seed = R"({"message": {"message": "x", "extraInfo": {"py_callstack": "y", "timestamp": "1"}}})";
    for (int i = 0; i < 20000; ++i) {
        std::string text = seed;
        for (int k = 0; k < 4; ++k) text[random() % text.size()] = static_cast<char>(random());
        const auto record = parse_error_file(text);
        if (record) EXPECT_FALSE(error_file_for_parent(record.value(), 1).empty());
    }
}

TEST(ErrorFile, AFileThatIsNestedWithoutEndIsRefused) {
    const std::string deep(400'000, '[');
    EXPECT_EQ(parse_error_file(R"({"message":"m","more":)" + deep + std::string(400'000, ']') + "}").error().message,
              "nested too deeply");
    EXPECT_TRUE(parse_error_file(R"({"message":")" + deep + R"(\"[[","more":[[[1]]]})"));
}

TEST(ErrorFile, TheParentsCopyCarriesTheExitCodeInTheDictionaryFormOnly) {
    const auto record =
        parse_error_file(R"({"message":{"message":"mm","extraInfo":{"timestamp":"17"}},"more":1})").value();
    EXPECT_EQ(error_file_for_parent(record, -11),
              R"({"message": {"message": "mm", "extraInfo": {"timestamp": "17"}, "errorCode": -11}, "more": 1})");
    EXPECT_EQ(error_file_for_parent(parse_error_file(R"({"message":"t","timestamp":"10"})").value(), 3),
              R"({"message": "t", "timestamp": "10"})");
}

TEST(ErrorFile, TheLaunchersOwnHasTheSameShape) {
    const std::string text = error_file_of_launcher("SignalException: Process 7 got signal: 15", 12);
    const auto record = parse_error_file(text).value();
    EXPECT_EQ(record.message, "SignalException: Process 7 got signal: 15");
    EXPECT_EQ(record.timestamp, 12);
    EXPECT_THAT(text, HasSubstr(R"("timestamp": "12")"));
}

}  // namespace
}  // namespace cpprun
