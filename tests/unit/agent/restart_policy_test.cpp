// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/restart_policy.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <functional>

namespace cpprun {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

WorkerFailure failure_with(ExitStatus status, milliseconds age = 1h, int local_rank = 0) {
    WorkerFailure out;
    out.status = status;
    out.age = age;
    out.local_rank = local_rank;
    return out;
}

/// One failed attempt after the other, with what is expected of each: "restart", "free", "wait 4000", or part of the
/// reason why there is none.
struct Attempt {
    ExitStatus status = ExitStatus::exited(1);
    milliseconds age{1h};
    milliseconds at{0};
    const char* expected = "restart";
};
struct Row {
    const char* name;
    int max_restarts;
    std::function<void(RestartConfig&)> rules;
    std::vector<Attempt> attempts;
};

constexpr auto failed = ExitStatus::exited(1);

const Row table[] = {
    {"no rules", 2, [](RestartConfig&) {}, {{failed, 0ms}, {failed, 0ms}, {failed, 0ms, 0ms, "no restarts are left"}}},
    {"no budget", 0, [](RestartConfig&) {}, {{failed, 0ms, 0ms, "--max-restarts is 0"}}},
    {"never on a code",
     5,
     [](RestartConfig& r) { r.never_on = {ExitStatus::exited(2)}; },
     {{failed}, {ExitStatus::exited(2), 1h, 0ms, "exit:2 of local rank 0 is in --no-restart-on"}}},
    {"never on a signal",
     5,
     [](RestartConfig& r) { r.never_on = {ExitStatus::killed_by(SIGSEGV)}; },
     {{ExitStatus::exited(SIGSEGV)}, {ExitStatus::killed_by(SIGSEGV), 1h, 0ms, "signal:SEGV of local rank 0"}}},
    {"least uptime",
     5,
     [](RestartConfig& r) { r.min_uptime = 10s; },
     {{failed, 10s}, {failed, 9900ms, 0ms, "lived 9.9 s, less than --min-uptime=10"}}},
    {"steady back-off",
     9,
     [](RestartConfig& r) { r.backoff_first = r.backoff_max = 4s; },
     {{failed, 0ms, 0ms, "wait 4000"}, {failed, 0ms, 0ms, "wait 4000"}}},
    {"doubled back-off",
     9,
     [](RestartConfig& r) {
         r.backoff_first = 1s;
         r.backoff_max = 5s;
     },
     {{failed, 0ms, 0ms, "wait 1000"},
      {failed, 0ms, 0ms, "wait 2000"},
      {failed, 0ms, 0ms, "wait 4000"},
      {failed, 0ms, 0ms, "wait 5000"},
      {failed, 0ms, 0ms, "wait 5000"}}},
    {"back-off begins anew after healthy time",
     9,
     [](RestartConfig& r) {
         r.backoff_first = 1s;
         r.backoff_max = 5s;
         r.renewed_after = 60s;
     },
     {{failed, 0ms, 0ms, "wait 1000"}, {failed, 0ms, 0ms, "wait 2000"}, {failed, 60s, 0ms, "wait 1000"}}},
    {"window",
     9,
     [](RestartConfig& r) {
         r.window_restarts = 2;
         r.window = 100s;
     },
     {{failed, 1h, 0s},
      {failed, 1h, 50s},
      {failed, 1h, 100s},
      {failed, 1h, 120s, "2 restarts within --restart-window=2/100"}}},
    {"renewed budget",
     1,
     [](RestartConfig& r) { r.renewed_after = 60s; },
     {{failed, 1s}, {failed, 60s}, {failed, 59s, 0ms, "no restarts are left"}}},
    {"free",
     1,
     [](RestartConfig& r) { r.free_on = {ExitStatus::exited(84)}; },
     {{ExitStatus::exited(84), 0ms, 0ms, "free"},
      {ExitStatus::exited(84), 0ms, 0ms, "free"},
      {failed},
      {ExitStatus::exited(84), 0ms, 0ms, "free"},
      {failed, 0ms, 0ms, "no restarts are left"}}},
    {"job-wide limit",
     9,
     [](RestartConfig& r) { r.job_restarts = 1; },
     {{failed}, {failed, 1h, 0ms, "the job has had its 1 restarts of --max-job-restarts"}}},
    {"free with no budget at all",
     0,
     [](RestartConfig& r) { r.free_on = {ExitStatus::exited(84)}; },
     {{ExitStatus::exited(84), 0ms, 0ms, "free"}, {failed, 0ms, 0ms, "--max-restarts is 0"}}},
    {"free within a window",
     0,
     [](RestartConfig& r) {
         r.free_on = {ExitStatus::exited(84)};
         r.window_restarts = 1;
         r.window = 10s;
     },
     {{ExitStatus::exited(84), 0ms, 0ms, "free"}, {ExitStatus::exited(84), 0ms, 1s, "1 restarts within"}}},
    {"free, but too early",
     0,
     [](RestartConfig& r) {
         r.free_on = {ExitStatus::exited(84)};
         r.min_uptime = 2s;
     },
     {{ExitStatus::exited(84), 2s, 0ms, "free"}, {ExitStatus::exited(84), 1s, 0ms, "less than --min-uptime=2"}}},
};

TEST(RestartPolicy, JudgesEachRowOfTheTable) {
    for (const Row& row : table) {
        RestartConfig rules;
        row.rules(rules);
        RestartPolicy policy(rules, row.max_restarts);
        for (std::size_t i = 0; i < row.attempts.size(); ++i) {
            const Attempt& attempt = row.attempts[i];
            const int spent_before = policy.spent();
            const RestartVerdict verdict = policy.judge({failure_with(attempt.status, attempt.age)}, attempt.at);
            const std::string expected = attempt.expected;
            const std::string where = std::string(row.name) + ", attempt " + std::to_string(i);
            const bool restart = expected == "restart" || expected == "free" || expected.starts_with("wait ");
            EXPECT_EQ(verdict.restart, restart) << where << ": " << verdict.reason;
            if (!restart)
                EXPECT_NE(verdict.reason.find(expected), std::string::npos) << where << ": " << verdict.reason;
            if (expected == "free") {
                EXPECT_EQ(policy.spent(), spent_before) << where;
                EXPECT_EQ(verdict.reason, "exit:84 is in --free-restart-on") << where;
            }
            if (expected.starts_with("wait "))
                EXPECT_EQ("wait " + std::to_string(verdict.wait.count()), expected) << where;
        }
    }
}

TEST(RestartPolicy, AnyWorkerThatFailedByItselfCanForbidARestartAndOneThatWasStoppedCannot) {
    RestartConfig rules;
    rules.never_on = {ExitStatus::exited(83), ExitStatus::killed_by(SIGTERM)};
    std::vector<WorkerFailure> failures{failure_with(failed), failure_with(ExitStatus::killed_by(SIGTERM), 1h, 1)};
    failures[1].after_stop_signal = true;
    EXPECT_TRUE(RestartPolicy(rules, 1).judge(failures, 0ms).restart);
    failures.push_back(failure_with(ExitStatus::exited(83), 1h, 2));
    const RestartVerdict verdict = RestartPolicy(rules, 1).judge(failures, 0ms);
    EXPECT_FALSE(verdict.restart);
    EXPECT_EQ(verdict.reason, "exit:83 of local rank 2 is in --no-restart-on");
}

TEST(RestartPolicy, OnlyTheRootCauseMakesARestartFree) {
    RestartConfig rules;
    rules.free_on = {ExitStatus::exited(84)};
    std::vector<WorkerFailure> failures{failure_with(failed), failure_with(ExitStatus::exited(84))};
    RestartPolicy policy(rules, 1);
    EXPECT_TRUE(policy.judge(failures, 0ms).restart);
    EXPECT_EQ(policy.spent(), 1);
}

TEST(RestartPolicy, RestartsOfOthersCountAndTheAccountOfTheNodeThatFailedHolds) {
    RestartPolicy policy({}, 2);
    policy.spend(2);
    EXPECT_FALSE(policy.judge({failure_with(failed)}, 0ms).restart);
    policy.agree_on(1);
    EXPECT_TRUE(policy.judge({failure_with(failed)}, 0ms).restart);
    EXPECT_EQ(policy.spent(), 2);
}

TEST(RestartPolicy, KnowsWhetherThereAreRules) {
    EXPECT_FALSE(RestartPolicy({}, 3).has_rules());
    for (const Row& row : table) {
        RestartConfig rules;
        row.rules(rules);
        EXPECT_EQ(RestartPolicy(rules, 3).has_rules(), !std::string_view(row.name).starts_with("no ")) << row.name;
    }
}

}  // namespace
}  // namespace cpprun
