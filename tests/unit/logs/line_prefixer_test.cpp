// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/line_prefixer.hpp"

#include <gtest/gtest.h>

#include <random>

namespace cpprun {
namespace {

/// What a prefixer with prefix "P:" shows of these pieces, fed one after the other, when the stream ends after them.
std::string shown(const std::vector<std::string>& pieces) {
    LinePrefixer prefixer("P:");
    std::string out;
    for (const std::string& piece : pieces) prefixer.feed(piece, out);
    prefixer.finish(out);
    return out;
}

TEST(LinePrefixer, PutsThePrefixBeforeEachLine) {
    EXPECT_EQ(shown({"line1\nline2\n"}), "P:line1\nP:line2\n");
    EXPECT_EQ(shown({"\n\n"}), "P:\nP:\n");
    EXPECT_EQ(shown({""}), "");
}

TEST(LinePrefixer, ALastLineWithoutEndGetsNone) {
    EXPECT_EQ(shown({"a\nlast"}), "P:a\nP:last");
}

TEST(LinePrefixer, CarriageReturnsEndLinesAsTorchrunReadsThem) {
    EXPECT_EQ(shown({"cr1\rcr2\rcr3\n"}), "P:cr1\nP:cr2\nP:cr3\n");
    EXPECT_EQ(shown({"crlf\r\n"}), "P:crlf\n");
    EXPECT_EQ(shown({"crlf\r", "\nnext\n"}), "P:crlf\nP:next\n");
    EXPECT_EQ(shown({"a\r", "", "\n\n"}), "P:a\nP:\n");
    EXPECT_EQ(shown({"a\r\r\n"}), "P:a\nP:\n");
    EXPECT_EQ(shown({"\r1%\r2%"}), "P:\nP:1%\nP:2%");
}

TEST(LinePrefixer, OtherControlBytesDoNotEndALine) {
    const std::string text("v\vf\fn\0u\xe2\x80\xa8 \x1b[31m", 16);
    EXPECT_EQ(shown({text + "\n"}), "P:" + text + "\n");
}

TEST(LinePrefixer, BytesThatAreNoUtf8PassUnharmed) {
    EXPECT_EQ(shown({"bad\xff\xfe"
                     "end\n",
                     "\xc3"}),
              "P:bad\xff\xfe"
              "end\nP:\xc3");
}

TEST(LinePrefixer, AQuietPartOfALineIsShownAndItsContinuationFollowsOnTheSameLine) {
    LinePrefixer prefixer("P:");
    std::string out;
    prefixer.feed("part", out);
    EXPECT_EQ(out, "");
    EXPECT_TRUE(prefixer.has_partial());
    prefixer.show_partial(out);
    EXPECT_EQ(out, "P:part");
    EXPECT_TRUE(prefixer.line_open());
    EXPECT_FALSE(prefixer.has_partial());
    prefixer.feed("ial\n", out);
    EXPECT_EQ(out, "P:partial\n");
    EXPECT_FALSE(prefixer.line_open());
}

TEST(LinePrefixer, AfterAnInterruptionTheContinuationHasThePrefixAgain) {
    LinePrefixer prefixer("P:");
    std::string out;
    prefixer.feed("part", out);
    prefixer.show_partial(out);
    prefixer.interrupted();
    EXPECT_FALSE(prefixer.line_open());
    out.clear();
    prefixer.feed("ial\n", out);
    EXPECT_EQ(out, "P:ial\n");
}

TEST(LinePrefixer, ALineThatWasEndedForAnotherIsNotEndedTwice) {
    LinePrefixer prefixer("P:");
    std::string out;
    prefixer.feed("prompt> ", out);
    prefixer.show_partial(out);
    prefixer.interrupted();
    out.clear();
    prefixer.feed("\n\nnext\n", out);
    EXPECT_EQ(out, "P:\nP:next\n");
}

TEST(LinePrefixer, AnInterruptionBetweenLinesChangesNothing) {
    LinePrefixer prefixer("P:");
    std::string out;
    prefixer.feed("a\n", out);
    prefixer.interrupted();
    prefixer.feed("\n", out);
    EXPECT_EQ(out, "P:a\nP:\n");
}

TEST(LinePrefixer, AHalfWrittenCharacterWaitsForItsOtherHalf) {
    LinePrefixer prefixer("P:");
    std::string out;
    prefixer.feed("a\xc3", out);
    prefixer.show_partial(out);
    EXPECT_EQ(out, "P:a");
    EXPECT_FALSE(prefixer.has_partial());
    prefixer.show_partial(out);
    prefixer.feed("\xa9\n", out);
    EXPECT_EQ(out, "P:a\xc3\xa9\n");
}

TEST(LinePrefixer, ALineWithoutAnyEndIsPassedOnInBoundedPieces) {
    LinePrefixer prefixer("P:");
    std::string out;
    const std::string piece(100000, 'x');
    for (int i = 0; i < 50; ++i) prefixer.feed(piece, out);
    EXPECT_GE(out.size() + LineSplitter::line_bytes_max, 50 * piece.size());
    prefixer.feed("\n", out);
    EXPECT_EQ(out, "P:" + std::string(50 * piece.size(), 'x') + "\n");
}

TEST(IncompleteUtf8, CountsTheBytesThatWaitForMore) {
    EXPECT_EQ(incomplete_utf8_bytes(""), 0U);
    EXPECT_EQ(incomplete_utf8_bytes("abc"), 0U);
    EXPECT_EQ(incomplete_utf8_bytes("\xc3\xa9"), 0U);
    EXPECT_EQ(incomplete_utf8_bytes("x\xe2\x82"), 2U);
    EXPECT_EQ(incomplete_utf8_bytes("\xf0\x9f\x98"), 3U);
    EXPECT_EQ(incomplete_utf8_bytes("\xf0\x9f\x98\x80"), 0U);
    EXPECT_EQ(incomplete_utf8_bytes("\xff"), 0U);
    EXPECT_EQ(incomplete_utf8_bytes("\x80\x80\x80\x80"), 0U);
    EXPECT_EQ(incomplete_utf8_bytes("\xc0"), 0U);
}

/// The dumb way: all bytes at once, one by one.
std::string shown_the_dumb_way(const std::string& text) {
    std::string out;
    bool at_start = true;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\n' && i > 0 && text[i - 1] == '\r') continue;
        if (at_start) out += "P:";
        const bool ends = text[i] == '\n' || text[i] == '\r';
        out += ends ? '\n' : text[i];
        at_start = ends;
    }
    return out;
}

class LinePrefixerPieces : public testing::TestWithParam<unsigned> {};

TEST_P(LinePrefixerPieces, AnyCutOfTheSameBytesShowsTheSame) {
    std::mt19937 random(GetParam());
    const std::string alphabet("ab\n\r\xc3\xa9\xf0", 7);
    std::string text;
    std::vector<std::string> pieces;
    for (int i = 0; i < 60; ++i) {
        std::string piece;
        for (auto n = random() % 6; n > 0; --n) piece += alphabet[random() % alphabet.size()];
        text += piece;
        pieces.push_back(piece);
    }
    EXPECT_EQ(shown(pieces), shown_the_dumb_way(text));
    LinePrefixer quiet_often("P:");
    std::string out;
    for (const std::string& piece : pieces) {
        quiet_often.feed(piece, out);
        if (random() % 2 == 0) quiet_often.show_partial(out);
    }
    quiet_often.finish(out);
    EXPECT_EQ(out, shown_the_dumb_way(text));
}

INSTANTIATE_TEST_SUITE_P(Seeds, LinePrefixerPieces, testing::Range(0U, 40U));

}  // namespace
}  // namespace cpprun
