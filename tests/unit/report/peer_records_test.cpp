// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/peer_records.hpp"

#include "core/report/failure_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cpprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

JobFailure failed(int rank, const char* host, bool consequence, bool own) {
    JobFailure one{4, rank, "exit code 3", "ValueError: boom", consequence};
    one.host = host;
    one.own = own;
    return one;
}

TEST(PeerRecords, AFailureReadsAsItWasWritten) {
    const auto read = decode_job_failure(encode_job_failure(failed(7, "", true, false)));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->round, 4);
    EXPECT_EQ(read->rank, 7);
    EXPECT_EQ(read->status, "exit code 3");
    EXPECT_EQ(read->said, "ValueError: boom");
    EXPECT_TRUE(read->consequence);
}

TEST(PeerRecords, WhatMakesNoSenseIsNoFailure) {
    for (const char* text : {"", "[]", "{}", R"({"round":-1,"rank":0})", R"({"round":0,"rank":-1})",
                             R"({"round":0,"rank":99999999999})", R"({"round":"0","rank":0})"})
        EXPECT_FALSE(decode_job_failure(text)) << text;
    EXPECT_FALSE(decode_job_failure(R"({"round":0,"rank":0,"said":")" + std::string(5000, 'x') + "\"}"));
}

TEST(PeerRecords, TextOfPeersIsOneSafeLine) {
    const auto read = decode_job_failure(R"({"round":0,"rank":0,"status":"a\u001b[2Jb\nc","said":7})");
    ASSERT_TRUE(read);
    EXPECT_EQ(read->status, "a[2Jb");
    EXPECT_EQ(read->said, "");
}

TEST(PeerRecords, TheFirstThatIsNoConsequenceIsTheFirstOfTheJob) {
    EXPECT_EQ(first_of_job({}), nullptr);
    EXPECT_EQ(first_of_job({failed(1, "a", true, false), failed(2, "b", false, false)})->rank, 2);
    EXPECT_EQ(first_of_job({failed(1, "a", true, false), failed(2, "b", true, false)})->rank, 1);
}

TEST(PeerRecords, PlacesReadAsTheyWereWrittenAndAreBounded) {
    const std::vector<RanksAt> places = decode_places(encode_places({{"all_reduce", {0, 1, 2, 5}}, {"x", {7}}}));
    ASSERT_EQ(places.size(), 2U);
    EXPECT_EQ(places[0].where, "all_reduce");
    EXPECT_THAT(places[0].ranks, ElementsAre(0, 1, 2, 5));
    EXPECT_THAT(decode_places(R"([{"where":"x","ranks":"5-3, a, -1, 1-2-3"},{"ranks":"1"},7])"), IsEmpty());
    std::size_t ranks = 0;
    for (const RanksAt& place : decode_places(R"([{"where":"x","ranks":"0-2000000000"},{"where":"y","ranks":"0-9"}])"))
        ranks += place.ranks.size();
    EXPECT_EQ(ranks, 100'000U);
    std::vector<RanksAt> many;
    for (int rank = 0; rank < 1000; ++rank) many.push_back({std::string(190, 'x') + std::to_string(rank), {rank}});
    EXPECT_LE(encode_places(many).size(), peer_record_bytes_max);
    EXPECT_THAT(decode_places(encode_places(many)), Not(IsEmpty()));
}

TEST(PeerRecords, OfWordsTheLastAreKept) {
    const auto words = decode_words(encode_words({{3, "first last"}, {4, "\033[2Jx\xff"}}, 4));
    ASSERT_EQ(words.size(), 2U);
    EXPECT_EQ(words[0].rank, 3);
    EXPECT_EQ(words[0].text, "last");
    EXPECT_EQ(words[1].text, "2Jx\xef\xbf\xbd");
}

TEST(FailureReport, B55TheFirstOfAllNodesIsNamedByEachOfThem) {
    FailureReportInput input{"train.py", "b", {}};
    input.failures.resize(1);
    input.failures[0].global_rank = 2;
    input.failures[0].status = ExitStatus::exited(1);
    input.job_failures = {failed(0, "a", false, false), failed(2, "b", false, true)};
    EXPECT_THAT(
        failure_report(input, tell_failures(input)),
        HasSubstr("\nverdict   : rank 0 on a failed first in the job, with exit code 3 (ValueError: boom); rank 2 "
                  "on b followed"));
    input.job_failures = {failed(2, "b", false, true), failed(0, "a", false, false)};
    EXPECT_THAT(failure_report(input, tell_failures(input)), HasSubstr("\nverdict   : rank 2 on b failed first, with"));
}

TEST(FailureReport, OfSilentRanksTheOneThatStandsOutComesFirst) {
    FailureReportInput input{"train.py", "a", {}};
    for (int rank = 0; rank < 4; ++rank) {
        WorkerFailure failure;
        failure.local_rank = failure.global_rank = rank;
        failure.status = ExitStatus::killed_by(15);
        failure.hung = std::chrono::seconds(2);
        input.failures.push_back(failure);
    }
    input.places = {{"all_reduce", {0, 1, 3}}, {"DataLoader", {2}}};
    const std::string report = failure_report(input, tell_failures(input));
    EXPECT_THAT(report, HasSubstr("root cause: rank 2 "));
    EXPECT_THAT(
        report,
        HasSubstr("verdict   : rank 2 on a hung: silent for 2.0 s, without output or heartbeat; ranks 0-1, 3 in "
                  "all_reduce, rank 2 in DataLoader"));
}

}  // namespace
}  // namespace cpprun
