// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/failure_report.hpp"

#include "core/report/known_errors.hpp"
#include "core/report/last_words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

namespace cpprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* traceback =
    "noise before\nTraceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n"
    "    raise ValueError(\"boom\")\nValueError: boom\n";

WorkerFailure failed(int rank, ExitStatus status, std::string words = {}) {
    WorkerFailure failure;
    failure.local_rank = rank;
    failure.global_rank = 4 + rank;
    failure.pid = 100 + rank;
    failure.status = status;
    failure.timestamp = 1000;
    failure.age = std::chrono::milliseconds(2345);
    failure.evidence.last_words = std::move(words);
    failure.evidence.last_words_known = true;
    return failure;
}

WorkerFailure stopped(int rank) {
    WorkerFailure failure = failed(rank, ExitStatus::killed_by(SIGTERM));
    failure.after_stop_signal = true;
    return failure;
}

FailureReportInput input(std::vector<WorkerFailure> failures) {
    FailureReportInput in{"train.py", "node7", std::move(failures)};
    in.first_rank = 4;
    in.restarts_used = 1;
    in.max_restarts = 3;
    return in;
}

std::string report_of(const FailureReportInput& in) {
    return failure_report(in, tell_failures(in));
}

TEST(FailureReport, IsOneScreenWithTheVerdictLast) {
    FailureReportInput in = input({failed(1, ExitStatus::exited(1), traceback), stopped(0), stopped(2), stopped(3)});
    in.log_directory = "/logs/run_x";
    EXPECT_EQ(report_of(in),
              "---- cpprun report: train.py\n"
              "root cause: rank 5 (local rank 1) on node7, pid 101: exit code 1 after 2.3 s, attempt 1\n"
              "usually   : an exception that nobody caught, or the program's own choice\n"
              "stderr    : the last of it\n"
              "  | Traceback (most recent call last):\n"
              "  |   File \"train.py\", line 3, in <module>\n"
              "  |     raise ValueError(\"boom\")\n"
              "  | ValueError: boom\n"
              "others    : ranks 4, 6-7: stopped by the launcher, SIGTERM (15)\n"
              "logs      : /logs/run_x\n"
              "restarts  : 1 of 3 used\n"
              "verdict   : rank 5 on node7 failed first, with exit code 1 (ValueError)");
}

TEST(FailureReport, PeersOfABrokenCollectiveAreConsequencesHoweverEarlyTheyFail) {
    const FailureReportInput in = input(
        {failed(0, ExitStatus::exited(1), "RuntimeError: Connection closed by peer [::1]:1\n"),
         failed(2, ExitStatus::killed_by(SIGSEGV)), failed(1, ExitStatus::exited(1), "Connection reset by peer")});
    const FailureStory story = tell_failures(in);
    EXPECT_EQ(story.root, 1U);
    EXPECT_EQ(story.all[0].kind, FailureClass::consequence);
    const std::string report = failure_report(in, story);
    EXPECT_THAT(report, HasSubstr("verdict   : rank 6 on node7 failed first, killed by SIGSEGV (11)"));
    EXPECT_THAT(report,
                HasSubstr("others    : ranks 4-5: a consequence, exit code 1: a peer of its collective had ended"));
}

TEST(FailureReport, ACrashIsNoConsequenceWhateverItHadSaidBefore) {
    const FailureReportInput in = input({failed(0, ExitStatus::killed_by(SIGSEGV), "Broken pipe\n")});
    EXPECT_EQ(tell_failures(in).all[0].kind, FailureClass::cause);
}

TEST(FailureReport, ARankThatEndedWellIsNamedWhenAllFailuresOnlyFollowed) {
    FailureReportInput in = input({failed(0, ExitStatus::exited(1), "Connection closed by peer"), stopped(1)});
    in.workers = {{0, 100, ExitStatus::exited(1), WorkerEnd::failed}, {1, 101}, {2, 102, ExitStatus::exited(0)}};
    EXPECT_THAT(report_of(in), HasSubstr("verdict   : rank 6 on node7 ended early with exit code 0, and the others, "
                                         "which waited for it, failed then"));
}

TEST(FailureReport, RanksThatDifferInNumbersOnlyAreAlike) {
    std::vector<WorkerFailure> failures;
    for (int rank = 0; rank < 8; ++rank)
        failures.push_back(failed(rank, ExitStatus::exited(1), "device " + std::to_string(rank) + " is lost\n"));
    failures.push_back(failed(9, ExitStatus::exited(1), "another fault\n"));
    const std::string report = report_of(input(std::move(failures)));
    EXPECT_THAT(report, HasSubstr("alike     : ranks 4-11 (8 ranks) failed in the same way"));
    EXPECT_THAT(report, HasSubstr("others    : rank 13: exit code 1: another fault"));
}

TEST(FailureReport, NeverHasMoreThan25Lines) {
    std::string words = "Traceback (most recent call last):\n";
    for (int i = 0; i < 100; ++i) words += "  File \"deep.py\", line 1\n";
    std::vector<WorkerFailure> failures;
    for (int rank = 0; rank < 64; ++rank)
        failures.push_back(
            failed(rank, ExitStatus::exited(3 + rank), words + "E" + std::string(1, char('A' + rank)) + ": x\n"));
    failures[0].evidence.memory_kill = MemoryKill::likely;
    failures[0].evidence.core = "here";
    failures[0].evidence.stderr_log = "log";
    FailureReportInput in = input(std::move(failures));
    in.log_directory = "logs";
    const std::string report = report_of(in);
    EXPECT_LE(std::count(report.begin(), report.end(), '\n') + 1, 25) << report;
    EXPECT_THAT(report, HasSubstr("and 59 more kinds of failures"));
}

TEST(FailureReport, AKillForWantOfMemoryIsInTheVerdictWithTheLimit) {
    WorkerFailure failure = failed(0, ExitStatus::killed_by(SIGKILL));
    failure.evidence.memory_kill = MemoryKill::yes;
    failure.evidence.memory_limit = "64.0 MiB (/sys/fs/cgroup/x/memory.max)";
    failure.evidence.peak_kib = 65'000;
    const std::string report = report_of(input({failure}));
    EXPECT_THAT(report, HasSubstr("memory    : killed by the kernel for want of memory: yes; limit 64.0 MiB "
                                  "(/sys/fs/cgroup/x/memory.max); peak 63.5 MiB"));
    EXPECT_THAT(report, HasSubstr("killed by SIGKILL (9), by the kernel for want of memory"));
}

TEST(FailureReport, JsonHoldsEveryFailureAndItsClass) {
    const FailureReportInput in =
        input({failed(1, ExitStatus::exited(1), "\x1b[31m\xff" + std::string(9000, 'x')), stopped(0)});
    const auto json = nlohmann::ordered_json::parse(failure_json(in, tell_failures(in)));
    EXPECT_EQ(json["v"], 1);
    EXPECT_EQ(json["root_cause"]["rank"], 5);
    EXPECT_EQ(json["failures"][1]["class"], "stopped");
    EXPECT_EQ(json["failures"][1]["signal"], SIGTERM);
    EXPECT_EQ(json["failures"][0]["stderr"].get<std::string>().size(), 4096U);
}

TEST(LastWords, OfAProgressBarTheLastStateIsShown) {
    EXPECT_THAT(read_last_words("10%\r50%\r\nnext\n\n", 5).lines, ElementsAre("50%", "next"));
    EXPECT_THAT(read_last_words("", 5).lines, IsEmpty());
}

TEST(LastWords, ATracebackBehindAPrefixIsFoundAndWhatPythonIgnoredIsNone) {
    const LastWords words = read_last_words(
        "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"x\"\n[rank1]: KeyError: 'a'\n"
        "Exception ignored in: <x>\nTraceback (most recent call last):\n  File \"y\"\nOSError: no\n",
        10);
    EXPECT_EQ(words.exception, "KeyError: 'a'");
    EXPECT_EQ(words.lines.size(), 3U);
}

TEST(LastWords, OfALongTracebackTheEndIsShown) {
    std::string text = "Traceback (most recent call last):\n";
    for (int i = 0; i < 50; ++i) text += "  frame " + std::to_string(i) + "\n";
    const LastWords words = read_last_words(text + "E: x\n", 5);
    EXPECT_THAT(words.lines,
                ElementsAre("Traceback (most recent call last):", "  ...", "  frame 48", "  frame 49", "E: x"));
}

TEST(LastWords, ControlSequencesAndEndlessLinesAreCut) {
    EXPECT_THAT(read_last_words("\x1b[2Jx\x9b\n", 5).lines[0], Not(HasSubstr("\x1b")));
    EXPECT_EQ(read_last_words(std::string(5000, 'x'), 5).lines[0].size(), 243U);
    const std::string cut = read_last_words(std::string(239, 'x') + "\xc3\xa4zzz", 5).lines[0];
    EXPECT_EQ(cut, std::string(239, 'x') + "...");
}

TEST(KnownErrors, StatusesHaveNamesAndMeanings) {
    EXPECT_EQ(status_text(ExitStatus::exited(3)), "exit code 3");
    EXPECT_EQ(status_text(ExitStatus::killed_by(SIGBUS)), "SIGBUS (7)");
    EXPECT_THAT(usual_meaning(ExitStatus::killed_by(SIGBUS)), HasSubstr("/dev/shm"));
    EXPECT_EQ(usual_meaning(ExitStatus::exited(77)), "");
}

TEST(RankRanges, AreShort) {
    EXPECT_EQ(rank_ranges({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
    EXPECT_EQ(rank_ranges({}), "");
}

}  // namespace
}  // namespace cpprun
