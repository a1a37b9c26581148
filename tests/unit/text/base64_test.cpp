// SPDX-License-Identifier: BSD-3-Clause
#include "core/text/base64.hpp"

#include "core/text/utf8.hpp"

#include <gtest/gtest.h>

#include <string>

namespace cpprun {
namespace {

using namespace std::string_literals;

TEST(Base64, WritesEveryLength) {
    EXPECT_EQ(encode_base64(""), "");
    EXPECT_EQ(encode_base64("f"), "Zg==");
    EXPECT_EQ(encode_base64("fo"), "Zm8=");
    EXPECT_EQ(encode_base64("foo"), "Zm9v");
    EXPECT_EQ(encode_base64("\x00\xff\xfe\xfb"s), "AP/++w==");
}

TEST(Base64, ReadsWhatItWrites) {
    std::string bytes;
    for (int i = 0; i < 300; ++i) {
        EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
        bytes.push_back(static_cast<char>(i * 37));
    }
}

// Each outcome is that of Python's base64.b64decode.
TEST(Base64, ReadsAsPython) {
    EXPECT_EQ(decode_base64("Zm\n9 v!\x80"), "foo");
    EXPECT_EQ(decode_base64("!!!"), "");
    EXPECT_EQ(decode_base64("Zg=="), "f");
    EXPECT_EQ(decode_base64("Zg==Zg=="), "f");
    EXPECT_EQ(decode_base64("Z=g=="), "f");
    EXPECT_EQ(decode_base64("Zg=Z"), std::nullopt);
    EXPECT_EQ(decode_base64("Zg=Zv"), "f\x06o");
    EXPECT_EQ(decode_base64("="), "");
    EXPECT_EQ(decode_base64("Zm9v="), "foo");
    EXPECT_EQ(decode_base64("abc"), std::nullopt);
    EXPECT_EQ(decode_base64("a"), std::nullopt);
    EXPECT_EQ(decode_base64("ab="), std::nullopt);
    EXPECT_EQ(decode_base64("a==="), std::nullopt);
}

TEST(Utf8, KnowsWhatPythonReads) {
    for (const auto& text : {""s, "abc"s, "\x7f"s, "\xc2\x80"s, "\xe0\xa0\x80"s, "\xed\xa0\x80"s, "\xf0\x90\x80\x80"s,
                             "\xf4\x8f\xbf\xbf"s}) {
        EXPECT_TRUE(is_utf8_or_surrogates(text)) << text;
    }
    for (const auto& text : {"\x80"s, "\xc1\xbf"s, "\xc2"s, "\xc2z"s, "\xe0\x9f\xbf"s, "\xe2\x82"s, "\xf0\x8f\xbf\xbf"s,
                             "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xff"s}) {
        EXPECT_FALSE(is_utf8_or_surrogates(text)) << text;
    }
}

}  // namespace
}  // namespace cpprun
