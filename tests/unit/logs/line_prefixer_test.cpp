// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/line_prefixer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace cpprun {
namespace {

using namespace std::chrono_literals;

constexpr LinePrefixer::Time start{};

/// What a prefixer with prefix "P:" shows of these pieces, fed one after the other, when the stream ends after them.
std::string shown(const std::vector<std::string>& pieces) {
    LinePrefixer prefixer("P:");
    std::string out;
    for (const std::string& piece : pieces) prefixer.feed(piece, out, start);
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
    prefixer.feed("part", out, start);
    EXPECT_EQ(out, "");
    EXPECT_TRUE(prefixer.due());
    prefixer.show_due(out, start + 1h);
    EXPECT_EQ(out, "P:part");
    EXPECT_TRUE(prefixer.line_open());
    EXPECT_FALSE(prefixer.due());
    prefixer.feed("ial\n", out, start);
    EXPECT_EQ(out, "P:partial\n");
    EXPECT_FALSE(prefixer.line_open());
}

TEST(LinePrefixer, AfterAnInterruptionTheContinuationHasThePrefixAgain) {
    LinePrefixer prefixer("P:");
    std::string out;
    prefixer.feed("part", out, start);
    prefixer.show_due(out, start + 1h);
    prefixer.interrupted();
    EXPECT_FALSE(prefixer.line_open());
    out.clear();
    prefixer.feed("ial\n", out, start);
    EXPECT_EQ(out, "P:ial\n");
}

TEST(LinePrefixer, ALineThatWasEndedForAnotherIsNotEndedTwice) {
    LinePrefixer prefixer("P:");
    std::string out;
    prefixer.feed("prompt> ", out, start);
    prefixer.show_due(out, start + 1h);
    prefixer.interrupted();
    out.clear();
    prefixer.feed("\n\nnext\n", out, start);
    EXPECT_EQ(out, "P:\nP:next\n");
}

TEST(LinePrefixer, AnInterruptionBetweenLinesChangesNothing) {
    LinePrefixer prefixer("P:");
    std::string out;
    prefixer.feed("a\n", out, start);
    prefixer.interrupted();
    prefixer.feed("\n", out, start);
    EXPECT_EQ(out, "P:a\nP:\n");
}

TEST(LinePrefixer, AHalfWrittenCharacterWaitsForItsOtherHalf) {
    LinePrefixer prefixer("P:");
    std::string out;
    prefixer.feed("a\xc3", out, start);
    prefixer.show_due(out, start + 1h);
    EXPECT_EQ(out, "P:a");
    EXPECT_FALSE(prefixer.due());
    prefixer.show_due(out, start + 1h);
    prefixer.feed("\xa9\n", out, start);
    EXPECT_EQ(out, "P:a\xc3\xa9\n");
}

TEST(LinePrefixer, ALineWithoutAnyEndIsPassedOnInBoundedPieces) {
    LinePrefixer prefixer("P:");
    std::string out;
    const std::string piece(100000, 'x');
    for (int i = 0; i < 50; ++i) prefixer.feed(piece, out, start);
    EXPECT_GE(out.size() + LineSplitter::line_bytes_max, 50 * piece.size());
    prefixer.feed("\n", out, start);
    EXPECT_EQ(out, "P:" + std::string(50 * piece.size(), 'x') + "\n");
}

/// What a prefixer of this style shows of pieces that come at these times, until its stream ends.
std::string shown(ProgressStyle style, const std::vector<std::pair<std::chrono::milliseconds, std::string>>& pieces) {
    LinePrefixer prefixer("P:", style);
    std::string out;
    for (const auto& [time, piece] : pieces) {
        for (auto due = prefixer.due(); due && *due < start + time; due = prefixer.due()) prefixer.show_due(out, *due);
        prefixer.feed(piece, out, start + time);
    }
    prefixer.finish(out);
    return out;
}

std::vector<std::pair<std::chrono::milliseconds, std::string>> bar(int states, std::chrono::milliseconds every,
                                                                   const std::string& end) {
    std::vector<std::pair<std::chrono::milliseconds, std::string>> pieces;
    for (int i = 1; i <= states; ++i)
        pieces.emplace_back(i * every, "\r" + std::to_string(i) + "/" + std::to_string(states));
    pieces.emplace_back(states * every, end);
    return pieces;
}

std::size_t count(const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
}

TEST(ProgressBar, AFewStatesAreLinesAsWithTorchrun) {
    EXPECT_EQ(shown(ProgressStyle::lines, {{0ms, "cr1\rcr2\rcr3\ncrlf\r"}, {1ms, "\n\r\n\r"}, {2ms, "\n"}}),
              "P:cr1\nP:cr2\nP:cr3\nP:crlf\nP:\nP:\n");
}

TEST(ProgressBar, OfManyStatesAPipeGetsTenAndOneASecondAndTheLast) {
    const std::string text = shown(ProgressStyle::lines, bar(1000, 4ms, "\n"));
    EXPECT_THAT(text, testing::EndsWith("P:1000/1000\n"));
    EXPECT_GE(count(text, "\n"), 13U);
    EXPECT_LE(count(text, "\n"), 16U);
    EXPECT_EQ(count(shown(ProgressStyle::all, bar(1000, 4ms, "\n")), "\n"), 1001U);
}

TEST(ProgressBar, ATerminalGetsEachStateOverTheFormer) {
    const std::string text = shown(ProgressStyle::in_place, bar(100, 50ms, "\nnext\n"));
    EXPECT_THAT(text, testing::StartsWith("P:1/100\r\x1b[KP:"));
    EXPECT_THAT(text, testing::EndsWith("\r\x1b[KP:100/100\nP:next\n"));
    EXPECT_EQ(count(text, "\n"), 2U);
    EXPECT_GE(count(text, "\r"), 40U);
    EXPECT_LE(count(text, "\r"), 60U);
}

TEST(ProgressBar, TheLastStateIsShownThoughNothingFollows) {
    for (const char* const end : {"", "\r", "\r    \r", "\r\n", "\n"}) {
        EXPECT_THAT(shown(ProgressStyle::lines, bar(100, 1ms, end)), testing::HasSubstr("P:100/100")) << end;
        const std::string text = shown(ProgressStyle::in_place, bar(100, 1ms, end));
        EXPECT_THAT(text, testing::HasSubstr("P:100/100")) << end;
        EXPECT_LE(count(text, "\n"), 1U) << end;
    }
}

TEST(ProgressBar, AStateThatRestsIsShownThoughOthersWereShownShortlyBefore) {
    LinePrefixer prefixer("P:", ProgressStyle::lines);
    std::string out;
    for (int i = 0; i < 20; ++i) prefixer.feed(std::to_string(i) + "\r", out, start);
    EXPECT_EQ(count(out, "\n"), 10U);
    ASSERT_TRUE(prefixer.due());
    EXPECT_LE(*prefixer.due(), start + 1s);
    prefixer.show_due(out, start + 1s);
    EXPECT_THAT(out, testing::EndsWith("P:19\n"));
    EXPECT_FALSE(prefixer.due());
}

TEST(ProgressBar, ALineTakesThePlaceOfAStateThatWasNotShown) {
    EXPECT_EQ(shown(ProgressStyle::in_place, {{0ms, "1%\r"}, {1ms, "2%\rdone\n"}}), "P:1%\r\x1b[KP:done\n");
}

TEST(ProgressBar, AfterAnInterruptionItGoesOnBelowAndLessOften) {
    LinePrefixer prefixer("P:", ProgressStyle::in_place);
    std::string out;
    prefixer.feed("1%\r", out, start);
    prefixer.interrupted();
    out.clear();
    prefixer.feed("2%\r", out, start + 500ms);
    EXPECT_EQ(out, "");
    prefixer.show_due(out, start + 1s);
    EXPECT_EQ(out, "P:2%");
    EXPECT_TRUE(prefixer.line_open());
    prefixer.feed("3%\r", out, start + 1100ms);
    EXPECT_EQ(out, "P:2%\r\x1b[KP:3%");
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
        quiet_often.feed(piece, out, start);
        if (random() % 2 == 0) quiet_often.show_due(out, start + 1h);
    }
    quiet_often.finish(out);
    EXPECT_EQ(out, shown_the_dumb_way(text));
}

TEST_P(LinePrefixerPieces, NoStyleLosesALineOrShowsWithoutBarsAnythingElse) {
    std::mt19937 random(GetParam());
    for (const ProgressStyle style : {ProgressStyle::lines, ProgressStyle::in_place}) {
        for (const bool bars : {false, true}) {
            std::string text;
            int lines = 0;
            for (int i = 0; i < 200; ++i) {
                if (bars && random() % 2 == 0) {
                    text += "\r" + std::to_string(i) + "%";
                } else {
                    if (bars && random() % 2 == 0) text += '\r';
                    text += "<line " + std::to_string(lines++) + ">" + (random() % 4 == 0 ? "\r\n" : "\n");
                }
            }
            std::vector<std::pair<std::chrono::milliseconds, std::string>> pieces;
            std::chrono::milliseconds now{0};
            for (std::size_t at = 0; at < text.size();) {
                const std::size_t size = 1 + random() % 20;
                pieces.emplace_back(now += std::chrono::milliseconds(random() % 300), text.substr(at, size));
                at += size;
            }
            const std::string out = shown(style, pieces);
            std::size_t from = 0;
            for (int line = 0; line < lines; ++line) {
                // Behind a part of itself that was shown before the rest came, at the worst.
                const std::string words = "line " + std::to_string(line) + ">\n";
                const std::size_t found = out.find(words, from);
                ASSERT_NE(found, std::string::npos) << words << " in " << out;
                from = found;
            }
            if (!bars) {
                EXPECT_EQ(out, shown_the_dumb_way(text));
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LinePrefixerPieces, testing::Range(0U, 40U));

}  // namespace
}  // namespace cpprun
