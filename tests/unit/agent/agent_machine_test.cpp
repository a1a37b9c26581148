// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/agent_machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <optional>
#include <random>

namespace cpprun {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

AgentSettings settings(int nproc, int max_restarts = 0) {
    AgentSettings s;
    s.nproc = nproc;
    s.max_restarts = max_restarts;
    s.binary_description = "of binary: sh";
    return s;
}

/// The place that a job of one node has.
RoundReady place_after(const JoinRound& join, std::int64_t round = 0) {
    RoundReady ready;
    ready.place.round = round;
    ready.place.restart_count = join.restart_count;
    return ready;
}

/// The machine with a memory of all commands, and workers with pids 100, 101, … It meets the others at once, unless it
/// is told to `wait_for_others`.
class Agent {
  public:
    explicit Agent(AgentSettings s, bool wait_for_others = false)
        : nproc_(s.nproc), waits_(wait_for_others), machine_(std::move(s)) {
        take(machine_.start());
    }

    Agent& started() {
        std::vector<int> pids;
        for (int i = 0; i < nproc_; ++i) pids.push_back(100 + i);
        return send(GroupStarted{pids});
    }
    Agent& exits(int rank, ExitStatus status, std::int64_t timestamp = 0) {
        WorkerFailure failure;
        failure.timestamp = timestamp;
        return send(WorkerExited{rank, status, failure});
    }
    Agent& send(const AgentEvent& event) {
        take(machine_.handle(event));
        return *this;
    }

    template <class Command>
    std::vector<Command> all() const {
        std::vector<Command> found;
        for (const AgentCommand& command : commands_)
            if (const auto* c = std::get_if<Command>(&command)) found.push_back(*c);
        return found;
    }
    std::optional<RunResult> result() const {
        const auto finished = all<Finish>();
        return finished.empty() ? std::nullopt : std::optional(finished.front().result);
    }
    std::vector<std::string> said() const {
        std::vector<std::string> texts;
        for (const Say& say : all<Say>()) texts.push_back(say.text);
        return texts;
    }
    void forget() { commands_.clear(); }
    /// From now on workers leave descendants behind: TreesGone comes when the test sends it.
    Agent& leave_trees() {
        trees_go_ = false;
        return *this;
    }
    /// From now on EvidenceCollected comes when the test sends it.
    Agent& leave_evidence() {
        evidence_comes_ = false;
        return *this;
    }
    std::string_view phase() const { return machine_.phase(); }

  private:
    void take(std::vector<AgentCommand> commands) {
        for (AgentCommand& command : commands) {
            commands_.push_back(command);
            if (trees_go_ && std::holds_alternative<AwaitTrees>(command)) take(machine_.handle(TreesGone{}));
            if (evidence_comes_ && std::holds_alternative<CollectEvidence>(command))
                take(machine_.handle(EvidenceCollected{}));
            if (waits_) continue;
            if (const auto* join = std::get_if<JoinRound>(&command)) take(machine_.handle(place_after(*join)));
            if (std::holds_alternative<EnterExitBarrier>(command)) take(machine_.handle(BarrierPassed{}));
        }
    }
    int nproc_;
    bool waits_;
    bool trees_go_ = true;
    bool evidence_comes_ = true;
    AgentMachine machine_;
    std::vector<AgentCommand> commands_;
};

constexpr auto ok = ExitStatus::exited(0);

TEST(AgentMachine, SucceedsWhenAllWorkersHaveExitedZeroAndSignalsNobody) {
    Agent agent(settings(2));
    agent.started().exits(1, ok);
    EXPECT_FALSE(agent.result());
    agent.exits(0, ok);
    ASSERT_TRUE(agent.result());
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::succeeded);
    EXPECT_THAT(agent.all<SignalWorkers>(), IsEmpty());
    EXPECT_FALSE(agent.all<ReleaseGroup>().front().kill_leftovers);
    EXPECT_THAT(agent.said(), IsEmpty());
}

TEST(AgentMachine, SiblingsGetTheSettleTimeBeforeTheyAreAskedToStop) {
    Agent agent(settings(2));
    agent.started().exits(1, ExitStatus::exited(3));
    EXPECT_THAT(agent.all<SignalWorkers>(), IsEmpty());
    EXPECT_EQ(agent.all<ArmTimer>().front().after, 30ms);
    agent.send(TimerFired{AgentTimer::settle});
    ASSERT_EQ(agent.all<SignalWorkers>().size(), 1U);
    EXPECT_EQ(agent.all<SignalWorkers>().front().signo, SIGTERM);
    EXPECT_THAT(agent.all<SignalWorkers>().front().local_ranks, ElementsAre(0));
    EXPECT_THAT(agent.said(), Contains("Sending process 100 closing signal SIGTERM"));
    agent.exits(0, ExitStatus::killed_by(SIGTERM), 1);
    ASSERT_TRUE(agent.result());
    EXPECT_EQ(agent.result()->failures.size(), 2U);
    EXPECT_TRUE(agent.result()->failures[1].after_stop_signal);
    EXPECT_THAT(agent.said(), Contains("failed (exitcode: 3) local_rank: 1 (pid: 101) of binary: sh"));
}

TEST(AgentMachine, RanksThatFailTogetherAreReportedWithTheirOwnCodes) {
    Agent agent(settings(2));
    agent.started().exits(0, ExitStatus::exited(3)).exits(1, ExitStatus::exited(4));
    ASSERT_TRUE(agent.result());
    EXPECT_THAT(agent.all<SignalWorkers>(), IsEmpty());
    EXPECT_EQ(agent.result()->failures[1].status, ExitStatus::exited(4));
}

TEST(AgentMachine, WhatAStopThatTookTooLongLeavesIsLookedAtBeforeItIsKilled) {
    Agent agent(settings(2));
    agent.leave_evidence().started().send(SignalReceived{SIGTERM}).exits(1, ExitStatus::killed_by(SIGTERM));
    agent.send(TimerFired{AgentTimer::grace});
    ASSERT_EQ(agent.all<CollectEvidence>().size(), 1U);
    EXPECT_EQ(agent.all<CollectEvidence>().front().reason, "rank 0 is still there 30 s after SIGTERM");
    EXPECT_EQ(agent.phase(), "stopping");
    agent.send(EvidenceCollected{});
    EXPECT_EQ(agent.phase(), "killing");
    EXPECT_EQ(agent.all<SignalWorkers>().back().signo, SIGKILL);
}

TEST(AgentMachine, EvidenceThatDoesNotComeKeepsNobodyAlive) {
    Agent agent(settings(1));
    agent.leave_evidence().started().send(SignalReceived{SIGTERM}).send(TimerFired{AgentTimer::grace});
    EXPECT_EQ(agent.all<ArmTimer>().back().timer, AgentTimer::grace);
    agent.send(TimerFired{AgentTimer::grace});
    EXPECT_EQ(agent.phase(), "killing");
}

TEST(AgentMachine, AFencedNodeHasNoTimeForEvidence) {
    Agent agent(settings(1));
    agent.leave_evidence().started().send(Fenced{"silence"}).send(TimerFired{AgentTimer::grace});
    EXPECT_EQ(agent.phase(), "killing");
    EXPECT_THAT(agent.all<CollectEvidence>(), IsEmpty());
}

TEST(AgentMachine, SomebodyWhoAsksForEvidenceChangesNothing) {
    Agent agent(settings(1), true);
    agent.send(EvidenceAsked{"SIGUSR2"});
    EXPECT_THAT(agent.said(), ElementsAre("SIGUSR2: there are no workers to look at"));
    Agent running(settings(1));
    running.started().send(EvidenceAsked{"SIGUSR2"});
    EXPECT_EQ(running.all<CollectEvidence>().size(), 1U);
    EXPECT_EQ(running.phase(), "running");
}

TEST(AgentMachine, ASilentWorkerIsSaidAndTheRunGoesOn) {
    Agent agent(settings(2));
    agent.started().send(WorkersSilent{{1}, 2s, 7});
    EXPECT_EQ(agent.phase(), "running");
    EXPECT_EQ(agent.all<CollectEvidence>().size(), 1U);
    EXPECT_THAT(agent.said().back(), HasSubstr("rank 1 is silent for 2.0 s"));
}

TEST(AgentMachine, B42ASilentWorkerCountsAsFailedWhenTheUserSaysSo) {
    AgentSettings s = settings(2);
    s.hang_fails = true;
    Agent agent(s);
    agent.started().send(WorkersSilent{{1}, 2s, 7});
    EXPECT_EQ(agent.phase(), "stopping");
    agent.exits(0, ExitStatus::killed_by(SIGTERM), 9).exits(1, ok);
    ASSERT_TRUE(agent.result());
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::workers_failed);
    const std::vector<WorkerFailure> failures = agent.result()->failures;
    const WorkerFailure& root = failures[root_cause(failures)];
    EXPECT_EQ(root.local_rank, 1);
    EXPECT_EQ(root.hung, 2s);
    EXPECT_FALSE(root.after_stop_signal);
}

TEST(AgentMachine, StoppedSiblingsAreListedByRankInWhateverOrderTheyDied) {
    Agent agent(settings(3));
    agent.started().exits(1, ExitStatus::exited(3)).send(TimerFired{AgentTimer::settle});
    agent.exits(2, ExitStatus::killed_by(SIGTERM), 1).exits(0, ExitStatus::killed_by(SIGTERM), 1);
    const auto result = agent.result();
    ASSERT_TRUE(result);
    std::vector<int> ranks;
    for (const WorkerFailure& failure : result->failures) ranks.push_back(failure.local_rank);
    EXPECT_THAT(ranks, ElementsAre(1, 0, 2));
}

TEST(AgentMachine, ASiblingThatExitsZeroWhenStoppedIsNoFailure) {
    Agent agent(settings(2));
    agent.started().exits(1, ExitStatus::exited(3)).send(TimerFired{AgentTimer::settle}).exits(0, ok);
    EXPECT_EQ(agent.result()->failures.size(), 1U);
}

TEST(AgentMachine, RestartsTheWholeGroupUntilTheRestartsAreUsedUp) {
    Agent agent(settings(1, 2));
    for (int attempt = 0; attempt < 3; ++attempt) {
        EXPECT_EQ(agent.all<StartGroup>().back().place.restart_count, attempt);
        EXPECT_FALSE(agent.result());
        agent.started().exits(0, ExitStatus::exited(5));
    }
    EXPECT_EQ(agent.all<StartGroup>().size(), 3U);
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::workers_failed);
    EXPECT_EQ(agent.result()->restarts_used, 2);
    EXPECT_THAT(agent.said(), Contains("[default] Worker group FAILED. 2/2 attempts left; will restart worker group"));
    EXPECT_THAT(agent.said(), Contains("[default] Worker group FAILED. 1/2 attempts left; will restart worker group"));
    for (const ReleaseGroup& release : agent.all<ReleaseGroup>()) EXPECT_TRUE(release.kill_leftovers);
}

TEST(AgentMachine, OnlyTheLastAttemptsFailuresAreReported) {
    Agent agent(settings(1, 1));
    agent.started().exits(0, ExitStatus::exited(5)).started().exits(0, ExitStatus::exited(6));
    ASSERT_EQ(agent.result()->failures.size(), 1U);
    EXPECT_EQ(agent.result()->failures[0].status, ExitStatus::exited(6));
}

TEST(AgentMachine, WorkersThatIgnoreTheStopSignalAreKilledAfterTheGraceTime) {
    AgentSettings s = settings(2);
    s.shutdown_timeout = 2s;
    Agent agent(s);
    agent.started().exits(1, ExitStatus::exited(3)).send(TimerFired{AgentTimer::settle});
    EXPECT_EQ(agent.all<ArmTimer>().back().after, 2s);
    agent.send(TimerFired{AgentTimer::grace});
    EXPECT_EQ(agent.all<SignalWorkers>().back().signo, SIGKILL);
    EXPECT_THAT(agent.said(), Contains("Unable to shutdown process 100 via 15, forcefully exiting via 9"));
    agent.exits(0, ExitStatus::killed_by(SIGKILL));
    EXPECT_EQ(agent.result()->failures[1].status, ExitStatus::killed_by(SIGKILL));
}

TEST(AgentMachine, AWorkerThatCannotBeKilledIsAbandonedAndNotRestarted) {
    Agent agent(settings(2, 3));
    agent.started().exits(1, ExitStatus::exited(3)).send(TimerFired{AgentTimer::settle});
    agent.send(TimerFired{AgentTimer::grace}).send(TimerFired{AgentTimer::abandon});
    ASSERT_TRUE(agent.result());
    EXPECT_THAT(agent.said(), Contains(HasSubstr("Process 100 did not exit after SIGKILL within 30s; abandoning")));
}

TEST(AgentMachine, NoGraceTimeMeansSignalAndKillAtOnce) {
    AgentSettings s = settings(1);
    s.shutdown_timeout = 0s;
    Agent agent(s);
    agent.started().send(SignalReceived{SIGTERM});
    ASSERT_EQ(agent.all<SignalWorkers>().size(), 2U);
    EXPECT_EQ(agent.all<SignalWorkers>()[1].signo, SIGKILL);
    EXPECT_GE(agent.all<ArmTimer>().back().after, 1s);
}

TEST(AgentMachine, AReceivedSignalIsForwardedAndEndsTheRun) {
    for (const int signo : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1}) {
        Agent agent(settings(2, 5));
        agent.started().send(SignalReceived{signo});
        EXPECT_EQ(agent.all<SignalWorkers>().front().signo, signo);
        EXPECT_THAT(agent.said(),
                    Contains("Received " + std::to_string(signo) + " death signal, shutting down workers"));
        agent.exits(0, ok).exits(1, ok);
        EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::signaled);
        EXPECT_EQ(agent.result()->signo, signo);
        EXPECT_EQ(agent.all<StartGroup>().size(), 1U);
    }
}

TEST(AgentMachine, ARepeatedTermDoesNotShortenTheDeadline) {
    Agent agent(settings(1));
    agent.started().send(SignalReceived{SIGTERM});
    agent.forget();
    agent.send(SignalReceived{SIGTERM}).send(SignalReceived{SIGHUP});
    EXPECT_THAT(agent.all<SignalWorkers>(), IsEmpty());
    EXPECT_THAT(agent.all<ArmTimer>(), IsEmpty());
    EXPECT_FALSE(agent.result());
}

TEST(AgentMachine, ASecondInterruptMeansNowAndOrphansNobody) {
    for (const int signo : {SIGINT, SIGQUIT}) {
        Agent agent(settings(2));
        agent.started().send(SignalReceived{SIGINT}).send(SignalReceived{signo});
        EXPECT_EQ(agent.all<SignalWorkers>().back().signo, SIGKILL);
        EXPECT_FALSE(agent.result());
        agent.send(SignalReceived{signo}).send(SignalReceived{signo});
        EXPECT_FALSE(agent.result());
        agent.exits(0, ExitStatus::killed_by(9)).exits(1, ExitStatus::killed_by(9));
        EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::signaled);
    }
}

TEST(AgentMachine, AStopRequestWhileAFailedAttemptIsStoppedCancelsTheRestart) {
    Agent agent(settings(2, 3));
    agent.started().exits(1, ExitStatus::exited(3)).send(TimerFired{AgentTimer::settle});
    agent.forget();
    agent.send(SignalReceived{SIGTERM});
    EXPECT_THAT(agent.all<SignalWorkers>(), IsEmpty());
    agent.exits(0, ExitStatus::killed_by(15));
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::signaled);
    EXPECT_THAT(agent.all<StartGroup>(), IsEmpty());
}

TEST(AgentMachine, AnUnhandledSignalStopsTheWorkersWithTermAndIsRemembered) {
    Agent agent(settings(1));
    agent.started().send(SignalReceived{SIGINT, false, ""}).exits(0, ok);
    EXPECT_EQ(agent.all<SignalWorkers>().front().signo, SIGTERM);
    EXPECT_FALSE(agent.result()->signal_handled);
    EXPECT_EQ(agent.result()->signo, SIGINT);
}

TEST(AgentMachine, AStartThatFailsHalfwayStopsWhatHadStarted) {
    Agent agent(settings(3, 5));
    agent.send(GroupStartFailed{{100, 101}, failure("no descriptors left")});
    EXPECT_THAT(agent.all<SignalWorkers>().front().local_ranks, ElementsAre(0, 1));
    agent.exits(0, ExitStatus::killed_by(15)).exits(1, ExitStatus::killed_by(15));
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::not_started);
    EXPECT_EQ(agent.result()->error.message, "no descriptors left");
    EXPECT_EQ(agent.all<StartGroup>().size(), 1U);
}

TEST(AgentMachine, AStuckWorkerFailsTheGroupForGood) {
    Agent agent(settings(2, 5));
    agent.started().send(WorkerStuck{1, std::chrono::seconds(12)});
    EXPECT_THAT(agent.said(), Contains(HasSubstr("uninterruptible sleep")));
    agent.exits(0, ExitStatus::killed_by(15)).exits(1, ExitStatus::killed_by(9));
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::workers_failed);
    EXPECT_EQ(agent.all<StartGroup>().size(), 1U);
}

TEST(AgentMachine, TheFailedLineNamesTheRootCauseByTime) {
    Agent agent(settings(3));
    agent.started()
        .exits(0, ExitStatus::exited(1), 30)
        .exits(1, ExitStatus::exited(2), 20)
        .exits(2, ExitStatus::exited(3), 10);
    EXPECT_THAT(agent.said(), Contains(HasSubstr("failed (exitcode: 3) local_rank: 2")));
}

// --- what workers leave behind ---

AgentSettings with(KillDescendants rule, int nproc, int max_restarts = 0) {
    AgentSettings s = settings(nproc, max_restarts);
    s.kill_descendants = rule;
    return s;
}

TEST(AgentMachineTrees, AFailedWorkerTakesItsDescendantsWithItBeforeTheNextAttempt) {
    Agent agent(settings(1, 1));
    agent.leave_trees().started().exits(0, ExitStatus::exited(1));
    ASSERT_EQ(agent.all<KillTree>().size(), 1U);
    EXPECT_EQ(agent.all<StartGroup>().size(), 1U) << "not before they are gone";
    agent.send(TreesGone{});
    EXPECT_EQ(agent.all<StartGroup>().size(), 2U);
    EXPECT_TRUE(agent.all<ReleaseGroup>().front().kill_leftovers);
}

TEST(AgentMachineTrees, AfterExitZeroDescendantsAreNamedAndLeftAlone) {
    Agent agent(settings(1));
    agent.leave_trees().started().exits(0, ok);
    EXPECT_THAT(agent.all<KillTree>(), IsEmpty());
    EXPECT_EQ(agent.all<LeaveTree>().size(), 1U);
    ASSERT_TRUE(agent.result()) << "nobody waits for them";
    EXPECT_FALSE(agent.all<ReleaseGroup>().front().kill_leftovers);
}

TEST(AgentMachineTrees, AlwaysEndsThemAfterExitZeroTooAndNeverLeavesThemAfterAFailure) {
    Agent always(with(KillDescendants::always, 1));
    always.started().exits(0, ok);
    EXPECT_EQ(always.all<KillTree>().size(), 1U);
    EXPECT_TRUE(always.all<ReleaseGroup>().front().kill_leftovers);

    Agent never(with(KillDescendants::never, 2, 1));
    never.leave_trees().started().exits(0, ExitStatus::exited(1)).send(TimerFired{AgentTimer::settle});
    never.exits(1, ExitStatus::killed_by(15));
    EXPECT_THAT(never.all<KillTree>(), IsEmpty());
    EXPECT_THAT(never.all<SignalTrees>(), IsEmpty());
    EXPECT_EQ(never.all<LeaveTree>().size(), 1U);
    EXPECT_EQ(never.all<StartGroup>().size(), 2U) << "nobody waits for them";
    EXPECT_FALSE(never.all<ReleaseGroup>().front().kill_leftovers);
}

TEST(AgentMachineTrees, TheGraceTimeBelongsToTheWholeTree) {
    Agent agent(settings(2));
    agent.leave_trees().started().send(SignalReceived{SIGTERM});
    agent.exits(0, ExitStatus::killed_by(15)).exits(1, ok);
    EXPECT_FALSE(agent.result()) << "a wrapper that ends first does not cut its child's work short";
    ASSERT_EQ(agent.all<SignalTrees>().size(), 2U);
    EXPECT_EQ(agent.all<SignalTrees>()[0].signo, SIGTERM);
    EXPECT_THAT(agent.all<SignalTrees>()[1].local_ranks, ElementsAre(1));
    EXPECT_THAT(agent.all<KillTrees>(), IsEmpty());
    agent.send(TreesGone{});
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::signaled);
}

TEST(AgentMachineTrees, WhatOutlivesTheGraceTimeIsKilledAndWhatCannotBeKilledIsReported) {
    Agent agent(settings(1, 3));
    agent.leave_trees().started().send(MembershipChanged{"Lost node1"}).exits(0, ok);
    agent.send(TimerFired{AgentTimer::grace});
    ASSERT_EQ(agent.all<KillTrees>().size(), 1U);
    EXPECT_THAT(agent.all<SignalWorkers>().back().signo, SIGTERM) << "no worker is left to be killed";
    EXPECT_EQ(agent.all<StartGroup>().size(), 1U);
    agent.send(TimerFired{AgentTimer::abandon});
    EXPECT_EQ(agent.all<ReportStuck>().size(), 1U);
    EXPECT_EQ(agent.all<StartGroup>().size(), 2U);
}

TEST(AgentMachineTrees, AStopReachesThoseThatWorkersHadLeftBehindToo) {
    Agent agent(settings(2));
    agent.leave_trees().started().exits(0, ok).send(SignalReceived{SIGINT});
    ASSERT_EQ(agent.all<SignalTrees>().size(), 1U);
    EXPECT_EQ(agent.all<SignalTrees>().front().signo, SIGINT);
    EXPECT_THAT(agent.all<SignalTrees>().front().local_ranks, ElementsAre(0));
}

TEST(AgentMachineTrees, ASecondInterruptDoesNotWaitForThem) {
    Agent agent(settings(1));
    agent.leave_trees().started().send(SignalReceived{SIGINT}).exits(0, ok).send(SignalReceived{SIGINT});
    EXPECT_EQ(agent.all<KillTrees>().size(), 1U);
    agent.send(TreesGone{});
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::signaled);
}

// --- several nodes ---

Agent among_others(int nproc, int max_restarts = 0) {
    return Agent(settings(nproc, max_restarts), true);
}

RoundReady round(std::int64_t number, int restart_count = 0) {
    return place_after(JoinRound{restart_count}, number);
}

TEST(AgentMachineAmongOthers, StartsNobodyBeforeTheRoundIsThere) {
    Agent agent = among_others(2);
    EXPECT_EQ(agent.all<JoinRound>().front().cause, JoinRound::Cause::start);
    EXPECT_THAT(agent.all<StartGroup>(), IsEmpty());
    agent.send(round(4));
    EXPECT_EQ(agent.all<StartGroup>().front().place.round, 4);
}

TEST(AgentMachineAmongOthers, ASignalEndsTheWaitAtOnceInEveryPhase) {
    Agent joining = among_others(1);
    joining.send(SignalReceived{SIGTERM});
    EXPECT_EQ(joining.result()->outcome, RunResult::Outcome::signaled);

    Agent through = among_others(1);
    through.send(round(0)).started().exits(0, ok);
    EXPECT_FALSE(through.result());
    EXPECT_EQ(through.all<EnterExitBarrier>().size(), 1U);
    through.send(SignalReceived{SIGTERM});
    EXPECT_EQ(through.result()->outcome, RunResult::Outcome::signaled);
}

TEST(AgentMachineAmongOthers, ANewMemberRestartsTheGroupWithoutSpendingARestart) {
    Agent agent = among_others(1, 0);
    agent.send(round(0)).started().send(MembershipChanged{"Detected 1 new nodes from group_rank=0 (node1)"});
    EXPECT_THAT(agent.said(),
                Contains("[default] Detected 1 new nodes from group_rank=0 (node1); will restart worker group"));
    EXPECT_EQ(agent.all<SignalWorkers>().front().signo, SIGTERM);
    agent.exits(0, ExitStatus::killed_by(15));
    EXPECT_FALSE(agent.result());
    EXPECT_EQ(agent.all<JoinRound>().back().cause, JoinRound::Cause::membership);
    agent.send(round(1));
    EXPECT_EQ(agent.all<StartGroup>().back().place.restart_count, 0);
}

TEST(AgentMachineAmongOthers, OthersFailureSpendsARestartHereToo) {
    Agent agent = among_others(1, 1);
    agent.send(round(0)).started().send(PeersRestart{"Workers of node1 have failed"}).exits(0, ok);
    EXPECT_EQ(agent.all<JoinRound>().back().restart_count, 1);
    agent.send(round(1, 1)).started().exits(0, ExitStatus::exited(1));
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::workers_failed);
}

TEST(AgentMachineAmongOthers, AFailureOfItsOwnIsToldWithTheNextRound) {
    Agent agent = among_others(1, 1);
    agent.send(round(0)).started().exits(0, ExitStatus::exited(1));
    EXPECT_EQ(agent.all<JoinRound>().back().cause, JoinRound::Cause::failure);
    EXPECT_EQ(agent.all<JoinRound>().back().restart_count, 1);
}

TEST(AgentMachineAmongOthers, WhoHasEndedWellRestartsWithTheOthers) {
    Agent agent = among_others(1, 1);
    agent.send(round(0)).started().exits(0, ok).send(MembershipChanged{"Lost node1"});
    EXPECT_THAT(agent.all<SignalWorkers>(), IsEmpty());
    EXPECT_EQ(agent.all<JoinRound>().size(), 2U);
}

TEST(AgentMachineAmongOthers, AFinalFailureElsewhereStopsTheWorkersAndEndsTheRun) {
    Agent agent = among_others(1, 5);
    agent.send(round(0)).started().send(RunEnded{failure("rank 3 on node1 failed (exitcode 1)")});
    EXPECT_EQ(agent.all<SignalWorkers>().front().signo, SIGTERM);
    agent.exits(0, ExitStatus::killed_by(15));
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::ended_elsewhere);
    EXPECT_EQ(agent.result()->error.message, "rank 3 on node1 failed (exitcode 1)");
}

TEST(AgentMachineAmongOthers, AnEndDuringAStopForAnotherRoundStartsNothingMore) {
    Agent agent = among_others(1, 5);
    agent.send(round(0)).started().send(MembershipChanged{"Lost node1"}).send(RunEnded{failure("the store is lost")});
    agent.exits(0, ExitStatus::killed_by(15));
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::ended_elsewhere);
    EXPECT_EQ(agent.all<JoinRound>().size(), 1U);
}

TEST(AgentMachineAmongOthers, AFencedNodeHasItsWorkersGoneInSecondsAndJoinsAgain) {
    Agent agent = among_others(1);
    agent.send(round(0)).started().send(Fenced{"The store cannot be reached"});
    EXPECT_LE(agent.all<ArmTimer>().back().after, 2s);
    agent.send(TimerFired{AgentTimer::grace});
    EXPECT_EQ(agent.all<SignalWorkers>().back().signo, SIGKILL);
    agent.exits(0, ExitStatus::killed_by(9));
    EXPECT_EQ(agent.all<JoinRound>().size(), 2U);
}

TEST(AgentMachineAmongOthers, AnUnneededSpareEndsWell) {
    Agent spare = among_others(1);
    spare.send(JoinFailed{{}, true});
    EXPECT_EQ(spare.result()->outcome, RunResult::Outcome::succeeded);
    Agent late = among_others(1);
    late.send(JoinFailed{failure("closed"), false});
    EXPECT_EQ(late.result()->outcome, RunResult::Outcome::not_started);
}

/// What must hold whatever happens: checked over random stories with a model of which workers live.
TEST(AgentMachine, RandomStoriesEndAndLeaveNobodyBehind) {
    for (unsigned seed = 0; seed < 3000; ++seed) {
        std::mt19937 random(seed);
        const int nproc = 1 + static_cast<int>(random() % 5);
        const int max_restarts = static_cast<int>(random() % 4);
        AgentMachine machine(settings(nproc, max_restarts));
        std::vector<bool> alive(nproc, false);
        std::vector<bool> doomed(nproc, false);
        bool trees = false;    // something is left of those that have ended
        bool awaited = false;  // and the machine waits for its end
        std::optional<RunResult> result;
        std::optional<AgentTimer> timer;
        int starts = 0;
        std::vector<AgentCommand> commands = machine.start();
        for (int step = 0; step < 400 && !result; ++step) {
            std::vector<AgentCommand> todo = std::move(commands);
            commands.clear();
            bool answered = false;
            for (const AgentCommand& command : todo) {
                if (const auto* join = std::get_if<JoinRound>(&command)) {
                    commands = machine.handle(place_after(*join));
                    answered = true;
                } else if (std::holds_alternative<EnterExitBarrier>(command)) {
                    commands = machine.handle(BarrierPassed{});
                    answered = true;
                } else if (const auto* start = std::get_if<StartGroup>(&command)) {
                    EXPECT_EQ(start->place.restart_count, starts) << "seed " << seed;
                    EXPECT_EQ(std::count(alive.begin(), alive.end(), true), 0) << "two attempts at once, seed " << seed;
                    EXPECT_FALSE(trees) << "beside what is left of the attempt before, seed " << seed;
                    ++starts;
                    alive.assign(nproc, true);
                    doomed.assign(nproc, false);
                    commands = machine.handle(GroupStarted{std::vector<int>(nproc, 7)});
                    answered = true;
                } else if (const auto* signal = std::get_if<SignalWorkers>(&command)) {
                    for (const int rank : signal->local_ranks) {
                        EXPECT_TRUE(alive[rank]) << "signal to a dead worker, seed " << seed;
                        doomed[rank] = signal->signo == SIGKILL || random() % 2 == 0;
                    }
                } else if (std::holds_alternative<AwaitTrees>(command)) {
                    awaited = true;
                } else if (std::holds_alternative<ReportStuck>(command)) {
                    trees = awaited = false;
                } else if (const auto* arm = std::get_if<ArmTimer>(&command)) {
                    timer = arm->timer;
                } else if (const auto* cancel = std::get_if<CancelTimer>(&command)) {
                    if (timer == cancel->timer) timer.reset();
                } else if (const auto* finish = std::get_if<Finish>(&command)) {
                    result = finish->result;
                }
            }
            if (result || answered) continue;
            if (awaited && (!trees || random() % 3 == 0)) {
                trees = awaited = false;
                commands = machine.handle(TreesGone{});
                continue;
            }
            const unsigned dice = random() % 10;
            std::vector<int> living;
            for (int rank = 0; rank < nproc; ++rank)
                if (alive[rank]) living.push_back(rank);
            if (dice == 0) {
                const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
                commands = machine.handle(SignalReceived{signals[random() % 4]});
            } else if (dice < 4 && timer) {
                const AgentTimer fired = *timer;
                timer.reset();
                commands = machine.handle(TimerFired{fired});
            } else if (!living.empty()) {
                const int rank = living[random() % living.size()];
                if (!doomed[rank] && random() % 3 != 0) continue;
                alive[rank] = false;
                trees = trees || random() % 2 == 0;
                const auto status = doomed[rank] ? ExitStatus::killed_by(9) : ExitStatus::exited(int(random() % 3));
                commands = machine.handle(WorkerExited{rank, status, {}});
            }
        }
        ASSERT_TRUE(result) << "seed " << seed;
        EXPECT_LE(starts, max_restarts + 1) << "seed " << seed;
        EXPECT_EQ(result->restarts_used, starts - 1) << "seed " << seed;
        EXPECT_EQ(result->outcome == RunResult::Outcome::workers_failed,
                  !result->failures.empty() && result->outcome != RunResult::Outcome::signaled)
            << "seed " << seed;
    }
}

TEST(AgentMachine, ARuleAgainstARestartIsSaidInOneLine) {
    AgentSettings s = settings(1, 3);
    s.restart.never_on = {ExitStatus::exited(2)};
    Agent agent(s);
    agent.started().exits(0, ExitStatus::exited(5)).started().exits(0, ExitStatus::exited(2));
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::workers_failed);
    EXPECT_THAT(agent.said(), Contains("[default] Worker group FAILED. 3/3 attempts left; will restart worker group"));
    EXPECT_THAT(agent.said(), Contains("[default] Worker group FAILED; no restart: exit:2 of local rank 0 is in "
                                       "--no-restart-on"));
}

TEST(AgentMachine, ABackOffHoldsTheStartBackButNotTheRound) {
    AgentSettings s = settings(1, 3);
    s.restart.backoff_first = s.restart.backoff_max = 1500ms;
    Agent agent(s);
    agent.started().exits(0, ExitStatus::exited(5));
    EXPECT_EQ(agent.all<JoinRound>().size(), 2U);
    EXPECT_EQ(agent.all<StartGroup>().size(), 1U);
    EXPECT_EQ(agent.all<ArmTimer>().back().timer, AgentTimer::backoff);
    EXPECT_EQ(agent.all<ArmTimer>().back().after, 1500ms);
    EXPECT_THAT(agent.said(),
                Contains("[default] Worker group FAILED. 3/3 attempts left; will restart worker group in 1.5 s"));
    agent.send(TimerFired{AgentTimer::backoff});
    EXPECT_EQ(agent.all<StartGroup>().size(), 2U);
    agent.started().exits(0, ok);
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::succeeded);
}

TEST(AgentMachine, WhileItWaitsForARestartEverythingIsHeard) {
    AgentSettings s = settings(1, 3);
    s.restart.backoff_first = s.restart.backoff_max = 1s;
    const auto waiting = [&] {
        Agent agent(s);
        agent.started().exits(0, ExitStatus::exited(5));
        return agent;
    };
    EXPECT_EQ(waiting().send(SignalReceived{SIGTERM, true, ""}).result()->outcome, RunResult::Outcome::signaled);
    EXPECT_EQ(waiting().send(RunEnded{failure("over")}).result()->outcome, RunResult::Outcome::ended_elsewhere);
    Agent agent = waiting();
    agent.send(MembershipChanged{"Detected 1 new node"});
    EXPECT_EQ(agent.all<JoinRound>().size(), 3U);
    EXPECT_EQ(agent.all<ArmTimer>().back().timer, AgentTimer::backoff);
    EXPECT_FALSE(agent.result());
}

TEST(AgentMachine, AFreeRestartIsAnAttemptMoreAndLeavesTheBudget) {
    AgentSettings s = settings(1, 1);
    s.restart.free_on = {ExitStatus::exited(84)};
    Agent agent(s);
    agent.started().exits(0, ExitStatus::exited(84)).started().exits(0, ExitStatus::exited(84));
    EXPECT_EQ(agent.all<JoinRound>().back().restart_count, 2);
    EXPECT_EQ(agent.all<JoinRound>().back().spent, 0);
    EXPECT_THAT(agent.said(), Contains("[default] Worker group FAILED. 1/1 attempts left; will restart worker group, "
                                       "for free: exit:84 is in --free-restart-on"));
    agent.started().exits(0, ExitStatus::exited(1)).started().exits(0, ExitStatus::exited(1));
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::workers_failed);
    EXPECT_EQ(agent.result()->restarts_used, 3);
}

TEST(AgentMachine, PeersAgreeOnWhatTheNodeThatFailedHasSpent) {
    Agent agent(settings(1, 1));
    agent.started().send(PeersRestart{"Workers of b have failed", 0}).exits(0, ExitStatus::killed_by(SIGTERM));
    EXPECT_EQ(agent.all<JoinRound>().back().restart_count, 1);
    EXPECT_EQ(agent.all<JoinRound>().back().spent, 0);
    agent.started().send(PeersRestart{"Workers of b have failed"}).exits(0, ExitStatus::killed_by(SIGTERM));
    EXPECT_EQ(agent.all<JoinRound>().back().spent, 1);
    agent.started().exits(0, ExitStatus::exited(1));
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::workers_failed);
}

TEST(AgentMachine, AForwardedSignalIsPassedOnAndChangesNothingElse) {
    Agent agent(settings(2));
    agent.started().send(SignalToForward{SIGUSR1, ""});
    ASSERT_EQ(agent.all<SignalWorkers>().size(), 1U);
    EXPECT_EQ(agent.all<SignalWorkers>().front().signo, SIGUSR1);
    EXPECT_THAT(agent.all<SignalWorkers>().front().local_ranks, ElementsAre(0, 1));
    EXPECT_THAT(agent.all<ArmTimer>(), IsEmpty());
    agent.exits(0, ok).exits(1, ok);
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::succeeded);
}

TEST(AgentMachine, AForwardedSignalDoesNotReachWorkersThatAreBeingStopped) {
    Agent agent(settings(1));
    agent.started().send(SignalReceived{SIGTERM, true, ""}).send(SignalToForward{SIGUSR1, ""});
    ASSERT_EQ(agent.all<SignalWorkers>().size(), 1U);
    EXPECT_EQ(agent.all<SignalWorkers>().front().signo, SIGTERM);
}

TEST(AgentMachine, AKeyOnTheTerminalIsOneLine) {
    Agent agent(settings(2));
    agent.started().send(SignalReceived{SIGINT, true, "", true});
    std::vector<std::string> shown;
    for (const Say& say : agent.all<Say>())
        if (say.always || say.level != Say::Level::info) shown.push_back(say.text);
    EXPECT_THAT(shown, ElementsAre("Received 2 death signal, shutting down workers (sent by the terminal)"));
    agent.exits(0, ok).exits(1, ok);
    EXPECT_TRUE(agent.result()->from_terminal);
}

TEST(AgentMachine, AKeyOnTheTerminalIsOneLineWithStubbornDescendantsToo) {
    Agent agent(settings(1));
    agent.leave_trees().started().send(SignalReceived{SIGINT, true, "", true}).exits(0, ok);
    agent.send(TimerFired{AgentTimer::grace});
    ASSERT_EQ(agent.all<KillTrees>().size(), 1U);
    EXPECT_TRUE(agent.all<KillTrees>().front().quiet);
}

TEST(AgentMachine, WhoeverSignalsTheWorkersTooHasNothingPassedOn) {
    AgentSettings s = settings(2);
    s.sender_tells_workers = true;
    Agent agent(s);
    agent.leave_trees().started().send(SignalToForward{SIGUSR1, ""}).send(SignalReceived{SIGTERM, true, ""});
    agent.exits(0, ok);
    EXPECT_THAT(agent.all<SignalWorkers>(), IsEmpty());
    EXPECT_THAT(agent.all<SignalTrees>(), IsEmpty());
    EXPECT_EQ(agent.all<ArmTimer>().back().after, 30s) << "the grace period runs all the same";
    agent.send(TimerFired{AgentTimer::grace});
    ASSERT_EQ(agent.all<SignalWorkers>().size(), 1U);
    EXPECT_EQ(agent.all<SignalWorkers>().front().signo, SIGKILL);
}

TEST(AgentMachine, AKeyAFailureAndASignalThatIsNotHandledReachTheWorkersInAnyCase) {
    AgentSettings s = settings(2);
    s.sender_tells_workers = true;
    const AgentEvent events[] = {SignalReceived{SIGINT, true, "", true}, SignalReceived{SIGUSR1, false, ""},
                                 MembershipChanged{"more"}};
    for (const AgentEvent& event : events) {
        Agent agent(s);
        agent.started().send(event);
        EXPECT_EQ(agent.all<SignalWorkers>().size(), 1U);
    }
}

TEST(AgentMachine, WhatCannotBeKilledIsGivenUpInBoundedTimeHoweverLongASaveMayTake) {
    AgentSettings s = settings(1);
    s.shutdown_timeout = std::chrono::hours(10);
    Agent agent(s);
    agent.started().send(SignalReceived{SIGINT, true, ""}).send(SignalReceived{SIGINT, true, ""});
    EXPECT_EQ(agent.all<ArmTimer>().back().timer, AgentTimer::abandon);
    EXPECT_EQ(agent.all<ArmTimer>().back().after, 30s);
}

TEST(AgentMachine, SuspendsOnceAndContinues) {
    Agent agent(settings(1));
    agent.started().send(Continued{}).send(SuspensionAsked{}).send(SuspensionAsked{});
    ASSERT_EQ(agent.all<SuspendGroup>().size(), 1U);
    EXPECT_TRUE(agent.all<SuspendGroup>().front().agent_too);
    EXPECT_THAT(agent.all<ContinueGroup>(), IsEmpty());
    agent.send(Continued{}).send(Continued{});
    EXPECT_EQ(agent.all<ContinueGroup>().size(), 1U);
    EXPECT_THAT(agent.said(), IsEmpty());
}

TEST(AgentMachine, AnAgentThatStaysAwakeSuspendsItsWorkersAloneAndThoseThatComeLaterToo) {
    AgentSettings s = settings(1);
    s.stays_awake = true;
    Agent agent(s);
    agent.send(SuspensionAsked{});
    agent.started();
    ASSERT_EQ(agent.all<SuspendGroup>().size(), 2U);
    EXPECT_FALSE(agent.all<SuspendGroup>().back().agent_too);
}

TEST(AgentMachine, WhatIsStoppedIsContinuedFirstAndNotSuspended) {
    AgentSettings s = settings(1);
    s.stays_awake = true;
    Agent agent(s);
    agent.started().send(SuspensionAsked{}).send(SignalReceived{SIGTERM, true, ""});
    EXPECT_EQ(agent.all<ContinueGroup>().size(), 1U);
    agent.send(SuspensionAsked{});
    EXPECT_EQ(agent.all<SuspendGroup>().size(), 1U);
}

TEST(AgentMachine, NamesItsPhase) {
    Agent agent(settings(1), true);
    EXPECT_EQ(agent.phase(), "joining");
    agent.send(place_after({}));
    EXPECT_EQ(agent.phase(), "starting");
    EXPECT_EQ(agent.started().phase(), "running");
    EXPECT_EQ(agent.send(SuspensionAsked{}).phase(), "suspended");
    EXPECT_EQ(agent.send(Continued{}).send(SignalReceived{SIGTERM, true, ""}).phase(), "stopping");
    EXPECT_EQ(agent.send(TimerFired{AgentTimer::grace}).phase(), "killing");
    EXPECT_EQ(agent.exits(0, ExitStatus::killed_by(SIGKILL)).phase(), "finished");
    Agent other(settings(1), true);
    other.send(place_after({})).started();
    EXPECT_EQ(other.exits(0, ok).phase(), "barrier");
}

TEST(AgentMachine, ARestartThatTheJobRefusesEndsTheRunWithTheFailuresOfTheAttempt) {
    Agent agent(settings(1, 5), true);
    agent.send(place_after({})).started().exits(0, ExitStatus::exited(7));
    EXPECT_EQ(agent.all<JoinRound>().back().cause, JoinRound::Cause::failure);
    agent.send(RestartRefused{"enough"});
    ASSERT_TRUE(agent.result());
    EXPECT_EQ(agent.result()->outcome, RunResult::Outcome::workers_failed);
    ASSERT_EQ(agent.result()->failures.size(), 1U);
    EXPECT_EQ(agent.result()->failures.front().status, ExitStatus::exited(7));
    EXPECT_THAT(agent.said(), Contains("[default] Worker group FAILED; no restart: enough"));
}

}  // namespace
}  // namespace cpprun
