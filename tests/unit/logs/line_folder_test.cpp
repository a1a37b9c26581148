// SPDX-License-Identifier: BSD-3-Clause
// --fold-lines in virtual time.
#include "core/logs/line_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cpprun {

bool operator==(const FoldedLine& one, const FoldedLine& other) {
    return one.text == other.text && one.sources == other.sources;
}

namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr LineFolder::Time start{};
constexpr auto window = 200ms;

LineFolder folder_of(int sources) {
    LineFolder folder(window);
    for (int source = 0; source < sources; ++source) folder.add_source(source);
    return folder;
}

TEST(LineFolder, ALineOfAllIsOneAndNeedNotWait) {
    LineFolder folder = folder_of(3);
    for (const int source : {2, 0}) folder.add(source, "same", start);
    EXPECT_THAT(folder.take_due(start), IsEmpty());
    folder.add(1, "same", start + 1ms);
    EXPECT_EQ(folder.due(), LineFolder::Time::min());
    EXPECT_THAT(folder.take_due(start + 1ms), ElementsAre(FoldedLine{"same", {2, 0, 1}}));
    EXPECT_FALSE(folder.due());
}

TEST(LineFolder, ALineOfSomeWaitsForTheWindowAndNoLonger) {
    LineFolder folder = folder_of(3);
    folder.add(0, "same", start);
    folder.add(1, "same", start + window - 1ms);
    EXPECT_EQ(folder.due(), start + window);
    EXPECT_THAT(folder.take_due(start + window - 1ms), IsEmpty());
    EXPECT_THAT(folder.take_due(start + window), ElementsAre(FoldedLine{"same", {0, 1}}));
}

TEST(LineFolder, WhatComesAfterTheWindowIsANewLine) {
    LineFolder folder = folder_of(2);
    folder.add(0, "same", start);
    folder.add(1, "same", start + window);
    EXPECT_THAT(folder.take_due(start + 2 * window), ElementsAre(FoldedLine{"same", {0}}, FoldedLine{"same", {1}}));
}

TEST(LineFolder, TheSameLineTwiceOfOneSourceStaysTwice) {
    LineFolder folder = folder_of(2);
    for (const int source : {0, 0, 1, 1}) folder.add(source, "x", start);
    EXPECT_THAT(folder.take_due(start), ElementsAre(FoldedLine{"x", {0, 1}}, FoldedLine{"x", {0, 1}}));
}

TEST(LineFolder, ALineDoesNotJoinOneBeforeItsSourcesLastLine) {
    LineFolder folder = folder_of(2);
    folder.add(0, "a", start);
    folder.add(0, "b", start);
    folder.add(1, "b", start);
    folder.add(1, "a", start);
    EXPECT_THAT(folder.take_due(start + window),
                ElementsAre(FoldedLine{"a", {0}}, FoldedLine{"b", {0, 1}}, FoldedLine{"a", {1}}));
}

TEST(LineFolder, LinesOfOneRankAloneDoNotKeepTheOthersFromBecomingOne) {
    LineFolder folder = folder_of(3);
    for (int source = 0; source < 3; ++source) {
        folder.add(source, "loading", start);
        folder.add(source, "mine " + std::to_string(source), start);
        folder.add(source, "loaded", start);
    }
    EXPECT_THAT(folder.take_due(start),
                ElementsAre(FoldedLine{"loading", {0, 1, 2}}, FoldedLine{"mine 0", {0}}, FoldedLine{"mine 1", {1}},
                            FoldedLine{"mine 2", {2}}, FoldedLine{"loaded", {0, 1, 2}}));
}

TEST(LineFolder, ARankThatSaysMoreThanTheOthersStillSharesWhatTheySay) {
    LineFolder folder = folder_of(2);
    for (int step = 0; step < 3; ++step) {
        const std::string line = "step " + std::to_string(step);
        folder.add(1, line, start);
        for (int extra = 0; extra < 3; ++extra) folder.add(0, "more", start);
        folder.add(0, line, start);
    }
    const std::vector<FoldedLine> lines = folder.take_due(start);
    EXPECT_EQ(
        std::count_if(lines.begin(), lines.end(), [](const FoldedLine& line) { return line.sources.size() == 2; }), 3);
    EXPECT_EQ(lines.size(), 12U);
}

TEST(LineFolder, WithFewerSourcesALineMayBeCompleteAtOnce) {
    LineFolder folder = folder_of(3);
    folder.add(0, "same", start);
    folder.add(1, "same", start);
    folder.remove_source(2);
    EXPECT_THAT(folder.take_due(start), ElementsAre(FoldedLine{"same", {0, 1}}));
}

TEST(LineFolder, WhatASourceHasWrittenCanBeTakenAtAnyTime) {
    LineFolder folder = folder_of(3);
    folder.add(0, "a", start);
    folder.add(1, "b", start);
    folder.add(0, "c", start);
    EXPECT_THAT(folder.take_up_to(2), IsEmpty());
    folder.add(1, "c", start);
    folder.add(1, "d", start);
    EXPECT_THAT(folder.take_up_to(0), ElementsAre(FoldedLine{"a", {0}}, FoldedLine{"b", {1}}, FoldedLine{"c", {0, 1}}));
    EXPECT_THAT(folder.take_up_to(0), IsEmpty());
    EXPECT_THAT(folder.take_up_to(1), ElementsAre(FoldedLine{"d", {1}}));
}

TEST(LineFolder, WhatWaitsIsBounded) {
    LineFolder folder(window, 10'000);
    folder.add_source(0);
    folder.add_source(1);
    std::size_t waiting = 0;
    for (int i = 0; i < 1000; ++i) {
        folder.add(0, std::string(100, 'x') + std::to_string(i), start);
        waiting += 1 - folder.take_due(start).size();
        ASSERT_LE(waiting * 100, 10'000U);
    }
    EXPECT_GT(waiting, 10U);
}

/// Ranks that run the same program at their own pace, some lines of which are their own. Whatever comes out, put back
/// into one stream for each rank, is what they have written, and nothing waits longer than it may.
class LineFolderSimulation : public testing::TestWithParam<unsigned> {};

TEST_P(LineFolderSimulation, NothingIsLostAndEachRanksOrderIsKept) {
    std::mt19937 random(GetParam());
    const int ranks = 1 + static_cast<int>(random() % 16);
    LineFolder folder = folder_of(ranks);
    std::vector<std::vector<std::string>> written(static_cast<std::size_t>(ranks));
    std::vector<std::vector<std::string>> shown(static_cast<std::size_t>(ranks));
    std::size_t lines_shown = 0;
    const auto take = [&](const std::vector<FoldedLine>& lines) {
        lines_shown += lines.size();
        for (const FoldedLine& line : lines)
            for (const int source : line.sources) shown[static_cast<std::size_t>(source)].push_back(line.text);
    };
    LineFolder::Time now = start;
    std::size_t total = 0;
    for (int step = 0; step < 2000; ++step) {
        now += std::chrono::milliseconds(random() % 20);
        const int rank = static_cast<int>(random() % static_cast<unsigned>(ranks));
        auto& own = written[static_cast<std::size_t>(rank)];
        std::string text =
            random() % 8 == 0 ? "mine " + std::to_string(rank) : "step " + std::to_string(own.size() / 3);
        folder.add(rank, text, now);
        own.push_back(std::move(text));
        ++total;
        if (random() % 100 == 0) take(folder.take_up_to(rank));
        take(folder.take_due(now));
        if (const auto due = folder.due()) {
            ASSERT_GT(*due, now);
            ASSERT_LE(*due, now + window);
        }
    }
    take(folder.take_due(now + window));
    EXPECT_EQ(shown, written);
    EXPECT_FALSE(folder.due());
    if (ranks > 4) {
        EXPECT_LT(lines_shown, total);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LineFolderSimulation, testing::Range(0U, 50U));

}  // namespace
}  // namespace cpprun
