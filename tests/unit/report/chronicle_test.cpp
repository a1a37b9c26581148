// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/chronicle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace cpprun {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::microseconds;
using testing::ElementsAre;
using testing::HasSubstr;

/// A chronicle in which each thing happens half a second after the one before.
class Story {
  public:
    Story() : chronicle_(run()) { chronicle_.began(next()); }

    template <class Event>
    Story& hears(Event event) {
        chronicle_.heard(event, next());
        return *this;
    }
    template <class Command>
    Story& decides(Command command) {
        chronicle_.decided(command, next());
        return *this;
    }
    Story& runs_two_workers() {
        RoundPlace place;
        place.round = 4;
        place.restart_count = 1;
        place.ranks = {
            .group_rank = 1, .group_world_size = 2, .local_world_size = 2, .global_base = 2, .world_size = 4};
        place.members = {"a", "b"};
        decides(JoinRound{0, JoinRound::Cause::start}).hears(RoundReady{place});
        chronicle_.logs_are_in("/logs/attempt_0");
        return hears(GroupStarted{{10, 11}});
    }
    Story& exits(int rank, ExitStatus status) { return hears(WorkerExited{rank, status, {}}); }

    /// The records so far with this name.
    std::vector<Json> all(const std::string& event) {
        for (const std::string& line : chronicle_.take_records()) records_.push_back(Json::parse(line));
        std::vector<Json> found;
        for (const Json& record : records_)
            if (record["event"] == event) found.push_back(record);
        return found;
    }
    Json only(const std::string& event) {
        const std::vector<Json> found = all(event);
        EXPECT_EQ(found.size(), 1U) << event;
        return found.empty() ? Json() : found.front();
    }
    Chronicle& chronicle() { return chronicle_; }

  private:
    static ChronicleRun run() {
        ChronicleRun run;
        run.run_id = "job";
        run.host = "b";
        run.agent_pid = 7;
        run.role = "trainer";
        run.nproc = 2;
        run.command = {"train.py", "\xff"};
        return run;
    }
    EventMoment next() {
        now_ += microseconds(500'000);
        return {microseconds(1'700'000'000'000'000) + now_, now_};
    }

    microseconds now_{0};
    Chronicle chronicle_;
    std::vector<Json> records_;
};

TEST(Chronicle, TimesAreUtcWithMicroseconds) {
    EXPECT_EQ(utc_text(microseconds(0)), "1970-01-01T00:00:00.000000Z");
    EXPECT_EQ(utc_text(microseconds(1'709'210'096'000'012)), "2024-02-29T12:34:56.000012Z");
}

TEST(Chronicle, EveryRecordSaysVersionNumberTimeAndWhoWritesIt) {
    Story story;
    const Json record = story.only("run_started");
    EXPECT_EQ(record["v"], 1);
    EXPECT_EQ(record["seq"], 0);
    EXPECT_EQ(record["time"], "2023-11-14T22:13:20.500000Z");
    EXPECT_EQ(record["uptime"], 0.5);
    EXPECT_EQ(record["run_id"], "job");
    EXPECT_EQ(record["host"], "b");
    EXPECT_EQ(record["agent_pid"], 7);
    EXPECT_EQ(record["command"], Json::parse(R"(["train.py", "\ufffd"])"));
}

TEST(Chronicle, ARoundIsToldWithItsMembersRanksAndReason) {
    Story story;
    story.runs_two_workers();
    const Json formed = story.only("round_formed");
    EXPECT_EQ(formed["round"], 4);
    EXPECT_EQ(formed["restart_count"], 1);
    EXPECT_EQ(formed["members"], Json({"a", "b"}));
    EXPECT_EQ(formed["group_rank"], 1);
    EXPECT_EQ(formed["first_rank"], 2);
    EXPECT_EQ(formed["world_size"], 4);
    EXPECT_EQ(formed["reason"], "start");
    EXPECT_EQ(formed["seconds"], 0.5);
    EXPECT_EQ(story.only("workers_started")["pids"], Json({10, 11}));
    EXPECT_THAT(story.chronicle().take_remarks(),
                ElementsAre("[trainer] Round 4 has formed in 0.500 s: 4 workers on a, b; reason: start"));
}

TEST(Chronicle, TellsThoseThatFailFromThoseThatTheAgentStopsAndKills) {
    Story story;
    story.runs_two_workers();
    story.exits(1, ExitStatus::exited(3)).decides(SignalWorkers{SIGTERM, {0}}).exits(0, ExitStatus::killed_by(SIGTERM));
    const std::vector<Json> ends = story.all("worker_ended");
    ASSERT_EQ(ends.size(), 2U);
    EXPECT_EQ(ends[0]["how"], "failed");
    EXPECT_EQ(ends[0]["rank"], 3);
    EXPECT_EQ(ends[0]["pid"], 11);
    EXPECT_EQ(ends[0]["exit_code"], 3);
    EXPECT_EQ(ends[1]["how"], "stopped");
    EXPECT_EQ(ends[1]["signal_name"], "SIGTERM");

    Story stubborn;
    stubborn.runs_two_workers().decides(SignalWorkers{SIGTERM, {0, 1}}).decides(SignalWorkers{SIGKILL, {1}});
    stubborn.exits(0, ExitStatus::exited(0)).exits(1, ExitStatus::killed_by(SIGKILL));
    EXPECT_EQ(stubborn.all("worker_ended")[0]["how"], "succeeded");
    EXPECT_EQ(stubborn.all("worker_ended")[1]["how"], "killed");
}

TEST(Chronicle, TheNextRoundsReasonIsWhatEndedTheOneBefore) {
    Story story;
    story.runs_two_workers().exits(0, ExitStatus::killed_by(SIGSEGV)).exits(1, ExitStatus::exited(1));
    story.decides(JoinRound{1, JoinRound::Cause::failure});
    EXPECT_EQ(story.only("round_ended")["reason"], "rank 2 failed (exitcode -11)");
    EXPECT_EQ(story.all("round_wanted").back()["reason"], "rank 2 failed (exitcode -11)");
    story.hears(RoundReady{});
    EXPECT_EQ(story.all("round_formed").back()["reason"], "rank 2 failed (exitcode -11)");
    ASSERT_EQ(story.chronicle().rounds().size(), 2U);
    EXPECT_TRUE(story.chronicle().rounds()[0].ended);
    EXPECT_EQ(story.chronicle().rounds()[0].log_directory, "/logs/attempt_0");
    EXPECT_FALSE(story.chronicle().rounds()[1].ended);
}

TEST(Chronicle, NodesThatAreLostAreNamedOneByOne) {
    Story story;
    story.runs_two_workers().hears(MembershipChanged{"Lost a, c", {"a", "c"}});
    const std::vector<Json> lost = story.all("node_lost");
    ASSERT_EQ(lost.size(), 2U);
    EXPECT_EQ(lost[0]["node"], "a");
    EXPECT_EQ(lost[1]["node"], "c");
    story.decides(JoinRound{0, JoinRound::Cause::membership});
    EXPECT_EQ(story.only("round_ended")["reason"], "Lost a, c");
}

TEST(Chronicle, ASignalIsToldWithItsSenderAndIsWhyTheRoundEnds) {
    Story story;
    story.runs_two_workers().hears(SignalReceived{SIGTERM, true, "pid 12 (scancel, uid 0)"});
    RunResult result;
    result.outcome = RunResult::Outcome::signaled;
    result.signo = SIGTERM;
    story.decides(Finish{result});
    EXPECT_EQ(story.only("signal_received")["sender"], "pid 12 (scancel, uid 0)");
    EXPECT_EQ(story.only("round_ended")["reason"], "signal SIGTERM");
    EXPECT_EQ(story.only("run_ended")["outcome"], "signaled");
    EXPECT_EQ(story.only("run_ended")["signal"], SIGTERM);
}

TEST(Chronicle, TheEndOfAFailedRunNamesItsRootCause) {
    Story story;
    story.runs_two_workers();
    WorkerFailure failure;
    failure.global_rank = 3;
    failure.local_rank = 1;
    failure.pid = 11;
    failure.status = ExitStatus::exited(9);
    RunResult result;
    result.outcome = RunResult::Outcome::workers_failed;
    result.failures = {failure};
    story.decides(Finish{result});
    EXPECT_EQ(story.only("run_ended")["root_cause"]["rank"], 3);
    EXPECT_EQ(story.only("run_ended")["root_cause"]["exit_code"], 9);
}

}  // namespace
}  // namespace cpprun
