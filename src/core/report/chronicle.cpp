// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/chronicle.hpp"

#include "core/agent/signal_names.hpp"
#include "core/text/terminal_safe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>

namespace cpprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t message_bytes_max = 1024;
constexpr std::size_t members_said_max = 8;
constexpr std::size_t members_recorded_max = 1024;
constexpr std::size_t evidence_kept = 4;

double seconds(std::chrono::microseconds time) {
    return std::chrono::duration<double>(time).count();
}

double seconds_between(const EventMoment& from, const EventMoment& to) {
    return seconds(to.since_start - from.since_start);
}

const char* name_of(JoinRound::Cause cause) {
    switch (cause) {
        case JoinRound::Cause::start:
            return "start";
        case JoinRound::Cause::failure:
            return "failure";
        case JoinRound::Cause::membership:
            return "membership";
    }
    return "";
}

/// "a, b and 3 more"; nodes whose names are not known are counted only.
std::string members_text(const std::vector<std::string>& members) {
    std::vector<std::string> known;
    for (const std::string& member : members)
        if (!member.empty() && known.size() < members_said_max) known.push_back(terminal_safe(member));
    std::string names = fmt::format("{}", fmt::join(known, ", "));
    if (known.size() == members.size()) return names;
    return fmt::format("{} and {} more", names, members.size() - known.size());
}

Json status_json(const ExitStatus& status) {
    if (!status.signaled) return {{"exit_code", status.value}};
    return {{"signal", status.value}, {"signal_name", signal_name(status.value)}};
}

}  // namespace

// The civil calendar after Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms", by way of std::chrono.
std::string utc_text(std::chrono::microseconds since_epoch) {
    const std::chrono::sys_time<std::chrono::microseconds> time(since_epoch);
    const auto day = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss clock(time - day);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                       clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
}

const char* name_of(WorkerEnd end) {
    switch (end) {
        case WorkerEnd::succeeded:
            return "succeeded";
        case WorkerEnd::failed:
            return "failed";
        case WorkerEnd::stopped:
            return "stopped";
        case WorkerEnd::killed:
            return "killed";
    }
    return "";
}

const char* name_of(RunResult::Outcome outcome) {
    switch (outcome) {
        case RunResult::Outcome::succeeded:
            return "succeeded";
        case RunResult::Outcome::workers_failed:
            return "workers_failed";
        case RunResult::Outcome::signaled:
            return "signaled";
        case RunResult::Outcome::not_started:
            return "not_started";
        case RunResult::Outcome::ended_elsewhere:
            return "ended_elsewhere";
    }
    return "";
}

Chronicle::Chronicle(ChronicleRun run) : run_(std::move(run)) {}

void Chronicle::began(const EventMoment& now) {
    now_ = now;
    record("run_started", {{"role", run_.role},
                           {"backend", run_.backend},
                           {"nproc", run_.nproc},
                           {"nodes_min", run_.nodes_min},
                           {"nodes_max", run_.nodes_max},
                           {"max_restarts", run_.max_restarts},
                           {"command", run_.command},
                           {"log_directory", run_.log_directory}});
}

void Chronicle::heard(const AgentEvent& event, const EventMoment& now) {
    now_ = now;
    std::visit([this](const auto& one) { hear(one); }, event);
}

void Chronicle::decided(const AgentCommand& command, const EventMoment& now) {
    now_ = now;
    std::visit([this](const auto& one) { note(one); }, command);
}

void Chronicle::logs_are_in(std::string attempt_directory) {
    if (RoundHistory* round = open_round()) round->log_directory = std::move(attempt_directory);
}

std::vector<std::string> Chronicle::take_records() {
    return std::exchange(records_, {});
}

std::vector<std::string> Chronicle::take_remarks() {
    return std::exchange(remarks_, {});
}

void Chronicle::hear(const RoundReady& event) {
    RoundHistory round{event.place, reason_.empty() ? "start" : std::exchange(reason_, {}), now_};
    const RankRange& ranks = event.place.ranks;
    if (round.place.members.size() > members_recorded_max) round.place.members.resize(members_recorded_max);
    signalled_.assign(static_cast<std::size_t>(run_.nproc), 0);
    record("round_formed", {{"round", event.place.round},
                            {"restart_count", event.place.restart_count},
                            {"reason", round.reason},
                            {"seconds", seconds_between(wanted_, now_)},
                            {"members", round.place.members},
                            {"group_rank", ranks.group_rank},
                            {"group_world_size", ranks.group_world_size},
                            {"first_rank", ranks.global_base},
                            {"world_size", ranks.world_size},
                            {"master_addr", event.place.master.host},
                            {"master_port", event.place.master.port}});
    remarks_.push_back(fmt::format("[{}] Round {} has formed in {:.3f} s: {} worker{} on {}; reason: {}", run_.role,
                                   event.place.round, seconds_between(wanted_, now_), ranks.world_size,
                                   ranks.world_size == 1 ? "" : "s", members_text(event.place.members),
                                   terminal_safe(round.reason)));
    rounds_.push_back(std::move(round));
}

void Chronicle::hear(const JoinFailed& event) {
    record("join_failed", {{"message", event.error.message}, {"spare", event.spare}});
}

void Chronicle::hear(const MembershipChanged& event) {
    lost(event.lost);
    record("membership_changed", {{"reason", event.reason}});
    why(event.reason);
}

void Chronicle::hear(const PeersRestart& event) {
    lost(event.lost);
    record("peers_restart", {{"reason", event.reason}});
    why(event.reason);
}

void Chronicle::lost(const std::vector<std::string>& nodes) {
    for (const std::string& node : nodes) record("node_lost", {{"node", node}});
}

void Chronicle::hear(const RunEnded& event) {
    record("ended_elsewhere", {{"message", event.error.message}});
    why(event.error.message);
}

void Chronicle::hear(const Fenced& event) {
    record("fenced", {{"reason", event.reason}});
    why(event.reason);
}

void Chronicle::hear(const BarrierPassed& /*event*/) {
    record("exit_barrier_passed", Json::object());
}

void Chronicle::hear(const GroupStarted& event) {
    RoundHistory* round = open_round();
    if (round == nullptr) return;
    round->started = now_;
    for (std::size_t rank = 0; rank < event.pids.size(); ++rank)
        round->workers.push_back({static_cast<int>(rank), event.pids[rank]});
    record("workers_started", {{"pids", event.pids},
                               {"first_rank", round->place.ranks.global_base},
                               {"log_directory", round->log_directory}});
}

void Chronicle::hear(const GroupStartFailed& event) {
    record("workers_not_started", {{"message", event.error.message}, {"pids", event.pids}});
    why(event.error.message);
}

void Chronicle::hear(const WorkerExited& event) {
    RoundHistory* round = open_round();
    if (round == nullptr) return;
    const auto rank = static_cast<std::size_t>(event.local_rank);
    const int sent = rank < signalled_.size() ? signalled_[rank] : 0;
    WorkerEnd end = WorkerEnd::failed;
    if (event.status.success()) {
        end = WorkerEnd::succeeded;
    } else if (sent == SIGKILL) {
        end = WorkerEnd::killed;
    } else if (sent != 0) {
        end = WorkerEnd::stopped;
    }
    Json fields{{"local_rank", event.local_rank},
                {"rank", round->place.ranks.global_base + event.local_rank},
                {"pid", rank < round->workers.size() ? round->workers[rank].pid : 0},
                {"how", name_of(end)}};
    fields.update(status_json(event.status));
    fields["seconds"] = seconds_between(round->started, now_);
    if (!event.status.success() && event.failure.record)
        fields["message"] = event.failure.record->message.substr(0, message_bytes_max);
    record("worker_ended", std::move(fields));
    if (rank < round->workers.size()) {
        round->workers[rank].status = event.status;
        round->workers[rank].end = end;
        round->workers[rank].ended = now_;
    }
    if (end == WorkerEnd::failed)
        why(fmt::format("rank {} failed (exitcode {})", round->place.ranks.global_base + event.local_rank,
                        event.status.python_code()));
}

void Chronicle::hear(const WorkerStuck& event) {
    record("worker_stuck", {{"local_rank", event.local_rank}, {"seconds", event.since.count()}});
    why(fmt::format("local rank {} is in uninterruptible sleep", event.local_rank));
}

void Chronicle::hear(const SignalReceived& event) {
    record("signal_received",
           {{"signal", event.signo}, {"signal_name", signal_name(event.signo)}, {"sender", event.sender}});
    why(fmt::format("signal {}", signal_name(event.signo)));
}

void Chronicle::hear(const RestartRefused& event) {
    record("restart_refused", {{"reason", event.reason}});
}

void Chronicle::hear(const SignalToForward& event) {
    record("signal_forwarded", {{"signal", event.signo}, {"signal_name", signal_name(event.signo)}});
}

void Chronicle::hear(const EvidenceAsked& /*event*/) {}

void Chronicle::hear(const WorkersSilent& event) {
    const RoundHistory* round = open_round();
    if (round == nullptr) return;
    std::vector<int> ranks;
    for (const int rank : event.local_ranks) ranks.push_back(round->place.ranks.global_base + rank);
    record("workers_silent", {{"local_ranks", event.local_ranks},
                              {"ranks", ranks},
                              {"seconds", std::chrono::duration<double>(event.silent_for).count()}});
}

void Chronicle::hear(const EvidenceCollected& event) {
    Json fields{{"reason", event.evidence.reason}};
    fields.update(evidence_json(event.evidence));
    record("evidence", std::move(fields));
    RoundHistory* round = open_round();
    if (round == nullptr) return;
    round->evidence.push_back(event.evidence);
    if (round->evidence.size() > evidence_kept) round->evidence.erase(round->evidence.begin());
}

void Chronicle::hear(const PlacesKnown& event) {
    Json places = Json::array();
    for (const RanksAt& place : event.places) places.push_back({{"where", place.where}, {"ranks", place.ranks}});
    record(
        "evidence_of_all",
        {{"where", places_text(event.places)}, {"odd_ranks", odd_ranks(event.places)}, {"places", std::move(places)}});
    if (RoundHistory* round = open_round()) round->places = event.places;
}

void Chronicle::hear(const LastWordsFound& event) {
    Json ranks = Json::array();
    for (const RankWords& one : event.words) ranks.push_back({{"rank", one.rank}, {"stderr", one.text}});
    record("last_words", {{"node", event.node}, {"ranks", std::move(ranks)}});
}

void Chronicle::hear(const SuspensionAsked& /*event*/) {
    record("suspended", Json::object());
}

void Chronicle::hear(const Continued& /*event*/) {
    record("continued", Json::object());
}

void Chronicle::hear(const TreesGone& /*event*/) {}

void Chronicle::hear(const TimerFired& /*event*/) {}

void Chronicle::note(const JoinRound& command) {
    end_round();
    wanted_ = now_;
    record("round_wanted", {{"restart_count", command.restart_count},
                            {"cause", name_of(command.cause)},
                            {"reason", reason_.empty() ? "start" : reason_}});
}

void Chronicle::note(const EnterExitBarrier& /*command*/) {
    record("exit_barrier_entered", Json::object());
}

void Chronicle::note(const SignalWorkers& command) {
    for (const int rank : command.local_ranks) {
        if (rank < 0 || static_cast<std::size_t>(rank) >= signalled_.size()) continue;
        int& sent = signalled_[static_cast<std::size_t>(rank)];
        if (sent != SIGKILL) sent = command.signo;
    }
    record(
        "workers_signaled",
        {{"signal", command.signo}, {"signal_name", signal_name(command.signo)}, {"local_ranks", command.local_ranks}});
}

void Chronicle::note(const Finish& command) {
    const RunResult& result = command.result;
    if (result.outcome == RunResult::Outcome::succeeded) why("all workers have ended well");
    end_round();
    Json fields{{"outcome", name_of(result.outcome)}, {"restarts_used", result.restarts_used}};
    if (result.outcome == RunResult::Outcome::signaled) fields["signal"] = result.signo;
    if (!result.error.message.empty()) fields["message"] = result.error.message;
    if (!result.failures.empty()) {
        const WorkerFailure& root = result.failures[root_cause(result.failures)];
        fields["root_cause"] = {{"rank", root.global_rank}, {"local_rank", root.local_rank}, {"pid", root.pid}};
        fields["root_cause"].update(status_json(root.status));
    }
    record("run_ended", std::move(fields));
}

RoundHistory* Chronicle::open_round() {
    return rounds_.empty() || rounds_.back().ended ? nullptr : &rounds_.back();
}

void Chronicle::end_round() {
    RoundHistory* round = open_round();
    if (round == nullptr) return;
    round->ended = now_;
    round->end_reason = reason_;
    record("round_ended", {{"round", round->place.round},
                           {"restart_count", round->place.restart_count},
                           {"seconds", seconds_between(round->formed, now_)},
                           {"reason", reason_}});
    remarks_.push_back(fmt::format("[{}] Round {} has ended after {:.3f} s on {}; reason: {}", run_.role,
                                   round->place.round, seconds_between(round->formed, now_),
                                   members_text(round->place.members), terminal_safe(reason_)));
}

// What happens first is why a round ends; what follows is its consequence.
void Chronicle::why(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
}

void Chronicle::record(const char* event, Json fields) {
    Json out{{"v", events_version},
             {"seq", serial_++},
             {"time", utc_text(now_.since_epoch)},
             {"uptime", seconds(now_.since_start)},
             {"event", event},
             {"run_id", run_.run_id},
             {"host", run_.host},
             {"agent_pid", run_.agent_pid}};
    out.update(fields);
    records_.push_back(out.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace cpprun
