// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/hang_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cpprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

TEST(HangWatch, WhoSendsHeartbeatsIsJudgedByItself) {
    HangWatch watch(2s);
    watch.begin(2, 0s);
    watch.heard_heartbeat(0, 1s);
    watch.heard_heartbeat(1, 1s);
    watch.heard_heartbeat(0, 2s);
    EXPECT_THAT(watch.look(2900ms), IsEmpty());
    EXPECT_EQ(watch.next_look(), 3s);
    EXPECT_THAT(watch.look(3s), ElementsAre(1));
    EXPECT_THAT(watch.look(3500ms), IsEmpty()) << "it was said";
    watch.heard_output(1, 3600ms);
    watch.heard_heartbeat(0, 5s);
    EXPECT_THAT(watch.look(5600ms), ElementsAre(1)) << "it was silent again";
}

TEST(HangWatch, OutputOfOneSpeaksForAllThatSendNoHeartbeat) {
    HangWatch watch(2s);
    watch.begin(3, 0s);
    watch.heard_output(0, 1s);
    EXPECT_THAT(watch.look(2900ms), IsEmpty());
    EXPECT_THAT(watch.look(3s), ElementsAre(0, 1, 2));
    watch.heard_output(2, 4s);
    EXPECT_THAT(watch.look(6s), ElementsAre(0, 1, 2));
}

TEST(HangWatch, AllAreSilentFromTheStartOn) {
    HangWatch watch(2s);
    watch.begin(2, 10s);
    EXPECT_EQ(watch.next_look(), 12s);
    EXPECT_THAT(watch.look(12s), ElementsAre(0, 1));
    EXPECT_EQ(watch.next_look(), HangWatch::Time::max());
}

TEST(HangWatch, WhoHasEndedIsNotMissed) {
    HangWatch watch(2s);
    watch.begin(2, 0s);
    watch.ended(0);
    EXPECT_THAT(watch.look(5s), ElementsAre(1));
}

TEST(HangWatch, TimeInWhichTheyStoodStillDoesNotCount) {
    HangWatch watch(2s);
    watch.begin(1, 0s);
    watch.heard_heartbeat(0, 1s);
    watch.forgive(10s);
    EXPECT_THAT(watch.look(11s), IsEmpty());
    EXPECT_THAT(watch.look(12s), ElementsAre(0));
}

TEST(HangWatch, RanksThatAreNotThereChangeNothing) {
    HangWatch watch(2s);
    watch.heard_output(3, 1s);
    watch.heard_heartbeat(-1, 1s);
    watch.ended(7);
    EXPECT_THAT(watch.look(100s), IsEmpty());
}

}  // namespace
}  // namespace cpprun
