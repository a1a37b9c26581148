// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rendezvous/c10d_meeting.hpp"

#include "core/agent/restart_policy.hpp"
#include "core/rendezvous/conf_values.hpp"
#include "core/report/failure_summary.hpp"
#include "core/text/json_fields.hpp"
#include "core/text/terminal_safe.hpp"
#include "core/text/whole_number.hpp"
#include "runtime/agent/listen_options.hpp"
#include "runtime/diagnostics.hpp"
#include "runtime/store/listener.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <type_traits>

namespace cpprun {
namespace {

using boost::asio::awaitable;
using boost::outcome_v2::success;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds poll_interval{1};
constexpr milliseconds name_patience{3'000};
constexpr milliseconds goodbye_max{1'500};
constexpr milliseconds others_leave_max{3'000};
constexpr milliseconds master_grace{1'500};
constexpr milliseconds lost_agent_grace{1'000};
constexpr milliseconds mend_time{5'000};
constexpr milliseconds mend_pause{100};
// Parts of the host's bound, in percent: for signs of life; until an agent stops its own workers, with time for them to
// stop; and until somebody else does so, when the agent itself stands still.
constexpr int sign_of_life_part = 30;
constexpr int lease_part = 60;
constexpr int guard_part = 90;
constexpr int lease_looked_at_part = 5;
constexpr seconds progress_told_every{3};
constexpr std::size_t rounds_kept = 3;
constexpr std::chrono::hours keep_alive_max{24 * 365};  // of all attempts together, so that sums stay in bounds
constexpr std::size_t words_shown_max = 8;
constexpr std::size_t failures_told_max = 4;

std::uint64_t random_seed() {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

std::optional<std::uint16_t> port_number(std::string_view text) {
    const auto port = whole_number<std::uint16_t>(text);
    return port && *port > 0 ? port : std::nullopt;
}

MasterAddress master_at(std::string host, std::uint16_t port, bool agent_store) {
    return {std::move(host), port, agent_store};
}

/// The nodes that are in the first list and not in the second.
std::vector<NodeId> only_in(std::vector<NodeId> first, std::vector<NodeId> second) {
    std::sort(first.begin(), first.end());
    std::sort(second.begin(), second.end());
    std::vector<NodeId> found;
    std::set_difference(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(found));
    return found;
}

std::vector<std::string> master_keys(const std::string& prefix) {
    return {prefix + "MASTER_ADDR", prefix + "MASTER_PORT"};
}

std::vector<std::string> master_values(const MasterAddress& master) {
    return {master.host, std::to_string(master.port)};
}

/// For tests: how far this agent's idea of the time of day is ahead.
seconds clock_shift(const Environment& environment) {
    const auto found = environment.find("CPPRUN_TEST_CLOCK_AHEAD");
    return seconds(found == environment.end() ? 0 : whole_number(found->second).value_or(0));
}

MembershipSettings settings_of(const RendezvousConfig& config) {
    MembershipSettings settings;
    settings.limits.min_nodes = config.min_nodes;
    settings.limits.max_nodes = config.max_nodes;
    settings.limits.last_call = conf_seconds(config.conf, "last_call_timeout", seconds(30));
    settings.limits.rank_order = config.rank_order;
    settings.join_timeout = conf_seconds(config.conf, "join_timeout", seconds(600));
    settings.keep_alive_interval = std::clamp<milliseconds>(
        conf_seconds(config.conf, "keep_alive_interval", seconds(5)), milliseconds(100), keep_alive_max);
    settings.keep_alive_attempts = static_cast<int>(std::min<std::int64_t>(
        conf_count(config.conf, "keep_alive_max_attempt", 3), keep_alive_max / settings.keep_alive_interval));
    settings.fence_after = settings.keep_alive_interval * settings.keep_alive_attempts * 2 / 3;
    settings.seed = random_seed();
    return settings;
}

}  // namespace

C10dMeeting::C10dMeeting(const LaunchConfig& config, const HostFacts& host, boost::asio::any_io_executor executor,
                         StoreLog complain)
    : StoreMeeting(config, host, executor, std::move(complain)),
      me_{config.rendezvous.local_addr.value_or(host_name()), host.pid, 0},
      settings_(settings_of(config.rendezvous)),
      machine_(settings_),
      clock_ahead_(clock_shift(host.environment)),
      wake_timer_(executor),
      mailbox_(own_prefix() + "to/" + node_text(me_) + "/") {}

C10dMeeting::~C10dMeeting() {
    close_store();  // its observer is this object
}

Moment C10dMeeting::now() const {
    return {std::chrono::duration_cast<milliseconds>(Clock::now().time_since_epoch()),
            std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now()) + clock_ahead_};
}

std::string C10dMeeting::names(const std::vector<NodeId>& nodes) const {
    std::vector<std::string> texts;
    for (const NodeId& node : nodes)
        if (!node.addr.empty() && texts.size() < 8) texts.push_back(terminal_safe(node.addr));
    if (texts.size() < nodes.size()) texts.push_back(fmt::format("{} more", nodes.size() - texts.size()));
    return fmt::format("{}", fmt::join(texts, ", "));
}

std::string C10dMeeting::change_of_members(const RoundMembers& before, const RoundMembers& after) const {
    const std::vector<NodeId> came = only_in(after.by_rank, before.by_rank);
    const std::vector<NodeId> gone = only_in(before.by_rank, after.by_rank);
    if (came.empty() && gone.empty()) return {};
    return fmt::format("{}{}{}", came.empty() ? "" : "came: " + names(came), came.empty() || gone.empty() ? "" : "; ",
                       gone.empty() ? "" : "gone: " + names(gone));
}

std::string C10dMeeting::describe(const RoundMembers& members, const std::vector<int>& ranks) const {
    std::vector<std::string> texts;
    for (const int rank : ranks) {
        const NodeId& node = members.by_rank.at(static_cast<std::size_t>(rank));
        texts.push_back(node.addr.empty() ? fmt::format("node {}", rank)
                                          : fmt::format("node {} ({})", rank, terminal_safe(node.addr)));
        if (texts.size() == 8) break;
    }
    return first_of(texts, ranks.size());
}

// --- the agent's wishes ---

void C10dMeeting::opened() {
    join(wish_);
}

void C10dMeeting::join_again() {
    if (wish_.cause == JoinRound::Cause::failure && !wish_.free && config().restart.job_restarts) {
        spawn(count_restart(serial_));
    } else {
        wish_to_join();
    }
}

/// All nodes count at one key, as there is no other place that sees the failures of all. Those of one round are one
/// restart: when one worker dies, others that talked to it often fail, too.
awaitable<void> C10dMeeting::count_restart(std::int64_t serial) {
    // Whoever has to join once more for the same failure does not count it again.
    wish_.cause = JoinRound::Cause::membership;
    const int limit = *config().restart.job_restarts;
    const std::string total = own_prefix() + "restarts";
    const auto of_round = co_await ops()->add(fmt::format("{}/{}", total, members_ ? members_->round : 0), 1);
    if (ended()) co_return;
    const auto count = co_await ops()->add(total, of_round && of_round.value() == 1 ? 1 : 0);
    if (ended()) co_return;
    if (count && count.value() > limit) {
        post(RestartRefused{job_limit_reached(limit)});
    } else if (serial == serial_) {
        wish_to_join();  // where the store did not answer, joining will tell
    }
}

void C10dMeeting::wish_to_join() {
    round_told_ = false;
    joined_at_ = Clock::now();
    feed(JoinWish{me_,
                  rendezvous().node_rank_given ? std::optional<std::int64_t>(rendezvous().node_rank) : std::nullopt,
                  members_ ? std::optional(members_->round) : std::nullopt, seconds_of("join_timeout", 600)});
    spawn(show_progress());
}

void C10dMeeting::enter_exit_barrier() {
    in_barrier_ = true;
    spawn(wait_for_others(members_, rank_, serial_));
}

// --- the store ---

C10dMeeting::Async<void> C10dMeeting::open() {
    const auto is_host = rendezvous().conf.find("is_host");
    const bool told = is_host != rendezvous().conf.end();
    if (told) {
        const bool yes = std::string("1tTyY").find(is_host->second.front()) != std::string::npos;
        choice_ = {yes, "--rdzv-conf is_host says so", {}};
    } else {
        choice_ = co_await choose_host(executor(), rendezvous().host, host_name(), name_patience);
    }
    // Somebody else here may have been first, e.g. another agent of this job on the same machine.
    if (choice_.is_host && !told && !config().store.bind && is_listened_on(rendezvous().port.value_or(0))) {
        choice_.is_host = false;
        choice_.reason = "another process here has the endpoint's port";
    }
    log(LogLevel::info,
        fmt::format("this node is {}the host because {}", choice_.is_host ? "" : "not ", choice_.reason));
    if (choice_.is_host) {
        ListenSpec spec = agents_listen_spec();
        spec.observed_prefixes.push_back(std::string("/") + state_prefix);
        spec.initial_values.emplace_back("/" + state_key(), no_state_yet);
        desk_ =
            std::make_unique<HostDesk>(executor(),
                                       HostDeskSettings{live_prefix(), own_prefix() + "to/", state_key(),
                                                        rendezvous().lost_after, rendezvous().silent_after},
                                       [this](std::vector<MembershipEvent> events) { feed_all(std::move(events)); });
        spec.observer = [this, own = "/" + state_key()](const StoreEvent& event) {
            const bool written = event.kind == StoreEvent::Kind::value_written;
            if (!written || !event.key.substr(1).starts_with(state_prefix) || event.key == own) {
                desk_->observe(event);
            } else if (!event.key.starts_with(own) && !other_run_told_.test_and_set()) {
                const std::string run(event.key.substr(1 + std::string_view(state_prefix).size(), 200));
                boost::asio::post(executor(), [run] {
                    log(LogLevel::warning,
                        fmt::format("the run '{}' uses this run's store, and loses it when this run ends: give each "
                                    "run a port of its own in --rdzv-endpoint",
                                    terminal_safe(run)),
                        true);
                });
            }
        };
        const Result<void> hosting = host_store(std::move(spec));
        if (hosting) {
            desk_->start(*hosted());
            machine_.host_is(me_);
            spawn(tell_progress());
        } else {
            desk_.reset();
        }
        if (!hosting && told) co_return hosting.error();
        if (!hosting) {
            choice_.is_host = false;
            log(LogLevel::info, "another process has the endpoint's port: " + hosting.error().message);
        }
    }
    const auto opened = co_await open_links(connect_time());
    if (!opened) co_return opened.error();
    co_return co_await introduce();
}

C10dMeeting::Async<void> C10dMeeting::refuse_other_run() {
    const auto identity = co_await read_host_identity();
    if (!identity) co_return identity.error();
    if (!identity.value() || hosted() != nullptr) co_return success();
    const HostIdentity& theirs = *identity.value();
    if (theirs.run_id == rendezvous().run_id) {
        if (theirs.nodes_min == rendezvous().min_nodes && theirs.nodes_max == rendezvous().max_nodes)
            co_return success();
        co_return failure(
            fmt::format("the host of the run, {} (pid {}), was started with --nnodes={}:{}, and this node with {}:{}",
                        theirs.host, theirs.pid, theirs.nodes_min, theirs.nodes_max, rendezvous().min_nodes,
                        rendezvous().max_nodes),
            "give all nodes of a run the same --nnodes");
    }
    co_return failure(
        fmt::format("the store at {}:{} belongs to the run '{}', hosted by {} (pid {}); this is the run '{}'",
                    rendezvous().host, rendezvous().port.value_or(0), terminal_safe(identity.value()->run_id),
                    identity.value()->host, identity.value()->pid, rendezvous().run_id),
        "give each run a port of its own in --rdzv-endpoint, or the same --rdzv-id if this is the same run");
}

C10dMeeting::Async<void> C10dMeeting::introduce() {
    const auto ours = co_await refuse_other_run();
    if (!ours) co_return ours.error();
    own_address_ = rendezvous().local_addr    ? *rendezvous().local_addr
                   : !choice_.address.empty() ? choice_.address
                                              : reachable_address(ops()->local_address(), rendezvous().host);
    const bool first_time = !std::exchange(introduced_, true);
    if (first_time) {
        const auto begun = co_await news().begin(ops());
        if (!begun) co_return as_error(begun.error());
    }
    if (host_is_cpprun() && hosted() == nullptr) co_return co_await be_led();
    if (rendezvous().node_rank_given && first_time && hosted() == nullptr) {
        const auto wished = co_await ops()->append(own_prefix() + "ranks",
                                                   fmt::format("{}\t{}\n", rendezvous().node_rank, node_text(me_)));
        if (!wished) co_return as_error(wished.error());
    }
    const auto first = co_await ops()->compare_set(state_key(), "", std::string(no_state_yet));
    if (!first) co_return as_error(first.error());
    token_ = first.value();
    spawn(hear_news());
    if (!host_is_cpprun() && first_time) spawn(poll_state());
    co_return success();
}

awaitable<void> C10dMeeting::hear_news() {
    const StoreFailure lost = co_await follow_news([this](const Json& entry) { hear(entry); });
    if (ended()) co_return;
    log(LogLevel::info, lost.message);
    spawn(mend_links());
}

/// torchrun's agents do not say when they have changed the state.
awaitable<void> C10dMeeting::poll_state() {
    while (!ended()) {
        co_await pause(poll_interval);
        if (ended()) co_return;
        feed(StateChanged{});
    }
}

void C10dMeeting::hear(const Json& entry) {
    const auto type = text_field(entry, "type");
    if (ended()) return;
    if (type == "state") {
        feed(StateChanged{});
        return;
    }
    if (type == "note") {
        // What each of many says about itself is the host's to put together: a box holds a few messages only.
        const auto note = hear_note(entry);
        if (note && note->kind != "evidence" && (note->kind != "failed" || job_failures().size() <= failures_told_max))
            tell_led(PeerWord{note->kind, note->host, text_field(entry, "from").value_or(""), note->text});
        return;
    }
    if (type == "report") {
        hear_report(text_field(entry, "text").value_or(""));
        tell_led(FailureReport{report_heard_});
    }
    if (type != "failure") return;
    failure_heard_ = terminal_safe(text_field(entry, "text").value_or("a node failed"));
    tell_led(JobFailed{failure_heard_});
    if (in_round_) post(job_failed());
}

void C10dMeeting::tell_led(const HostMail& mail) {
    if (!desk_) return;
    for (const NodeId& node : desk_->led()) desk_->post(node, mail);
    desk_->flush();
}

/// The connection is gone: of the other agents, only the host's end ends the job.
awaitable<void> C10dMeeting::mend_links() {
    if (mending_) co_return;
    mending_ = true;
    close_links();
    const auto begin = Clock::now();
    const auto deadline = Clock::now() + std::max(mend_time, rendezvous().lost_after);
    Error problem;
    while (!ended() && Clock::now() < deadline) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
        auto opened = co_await open_links(std::max(milliseconds(1), std::min(left, lost_agent_grace)));
        if (ended()) co_return;
        if (opened) opened = co_await introduce();
        if (opened) {
            mending_ = false;
            log(LogLevel::warning, "the connection to the store is there again", true);
            feed(StateChanged{});
            // A wish that was on its way may be lost; one that was not is granted by then, or is the same.
            if (led_ && !round_told_) join(wish_);
            co_return;
        }
        problem = opened.error();
        close_links();
        if (problem.message.find("refused") != std::string::npos && Clock::now() > begin + lost_agent_grace) break;
        co_await pause(mend_pause);
    }
    mending_ = false;
    if (ended()) co_return;
    fail(failure(fmt::format("the store at {}:{}, which all nodes meet in, is lost: {}", rendezvous().host,
                             rendezvous().port.value_or(0), problem.message),
                 "the agent that hosted it has ended or cannot be reached; its own output says why"));
}

// --- the machine ---

void C10dMeeting::feed(MembershipEvent event) {
    if (led_) {
        const bool wish = std::holds_alternative<JoinWish>(event) || std::holds_alternative<StayWish>(event);
        if (wish && !ended()) spawn(send_wish(std::move(event)));
        return;
    }
    std::vector<MembershipEvent> events;
    events.push_back(std::move(event));
    feed_all(std::move(events));
}

void C10dMeeting::feed_all(std::vector<MembershipEvent> events) {
    std::move(events.begin(), events.end(), std::back_inserter(events_));
    // A command may be answered before it returns; the commands of the answer come after those of the question.
    if (feeding_) return;
    feeding_ = true;
    while (!events_.empty()) {
        const std::vector<MembershipEvent> next = std::exchange(events_, {});
        for (const MembershipCommand& command : machine_.handle(next, now()))
            std::visit([this](const auto& c) { route(c); }, command);
    }
    feeding_ = false;
    if (desk_) desk_->flush();
}

/// A host's machine speaks for the led agents too.
template <class Command>
void C10dMeeting::route(const Command& command) {
    if constexpr (std::is_same_v<Command, RoundFormed>) forget_old_rounds(*command.members);
    if constexpr (std::is_same_v<Command, RoundFormed> || std::is_same_v<Command, JoinEnded> ||
                  std::is_same_v<Command, RestartNeeded> || std::is_same_v<Command, RunClosed> ||
                  std::is_same_v<Command, Reinstated>) {
        if (command.node != me_) {
            if (!desk_) return;
            if constexpr (std::is_same_v<Command, RoundFormed>) {
                RoundFormed told = command;
                // Found out once for a round: there are as many of these as members.
                const bool known = !kept_rounds_.empty() && kept_rounds_.back().round == command.members->round;
                told.mixed = known ? kept_rounds_.back().mixed : torchrun_among(*command.members);
                desk_->post(command.node, told);
            } else {
                desk_->post(command.node, command);
            }
            return;
        }
    }
    if constexpr (std::is_same_v<Command, FenceDue>) {
        if (command.node != me_) return;
    }
    const bool for_the_agent =
        !std::is_same_v<Command, ReadState> && !std::is_same_v<Command, SwapState> && !std::is_same_v<Command, WakeAt>;
    if (ended() && for_the_agent) return;
    obey(command);
}

// --- led by the host ---

C10dMeeting::Async<void> C10dMeeting::be_led() {
    led_ = true;
    // On the link that stays: when that one breaks, this agent is gone.
    const auto registered =
        co_await watch()->set(live_prefix() + node_text(me_), encode_sign_of_life(wishes_++, mailbox_.position()));
    if (!registered) co_return as_error(registered.error());
    last_sign_of_life_ = Clock::now();
    spawn(read_mail());
    spawn(show_life());
    spawn(watch_lease());
    co_return success();
}

awaitable<void> C10dMeeting::send_wish(MembershipEvent event) {
    const auto link = ops();
    const auto sent =
        co_await link->set(live_prefix() + node_text(me_), encode_wish(event, wishes_++, mailbox_.position()));
    if (!sent && !ended() && link == ops()) spawn(mend_links());
}

awaitable<void> C10dMeeting::read_mail() {
    const auto link = watch();
    const StoreFailure lost = co_await mailbox_.follow(link, [this](const std::string& text) {
        const auto mail = decode_mail(me_, text);
        if (mail && !ended()) open_mail(*mail);
    });
    if (ended() || link != watch()) co_return;
    log(LogLevel::info, lost.message);
    spawn(mend_links());
}

/// A frozen agent closes nothing, and a frozen host neither.
awaitable<void> C10dMeeting::show_life() {
    const auto link = ops();
    while (!ended() && link == ops()) {
        const auto sent_at = Clock::now();
        const auto sent =
            co_await link->set(live_prefix() + node_text(me_), encode_sign_of_life(wishes_++, mailbox_.position()));
        StoreResult<bool> answered = StoreFailure{};
        if (sent) answered = co_await link->check(state_key());
        if (ended() || link != ops()) co_return;
        if (!answered) {
            spawn(mend_links());
            co_return;
        }
        last_sign_of_life_ = sent_at;
        extend_lease(sent_at + part_of_bound(guard_part));
        fenced_ = false;
        co_await pause(part_of_bound(sign_of_life_part));
    }
}

awaitable<void> C10dMeeting::watch_lease() {
    const auto link = ops();
    while (!ended() && link == ops()) {
        co_await pause(part_of_bound(lease_looked_at_part));
        if (ended() || fenced_ || Clock::now() - last_sign_of_life_ < part_of_bound(lease_part)) continue;
        fenced_ = true;
        obey(FenceDue{me_});
    }
}

void C10dMeeting::open_mail(const HostMail& mail) {
    if (std::holds_alternative<NotAMember>(mail)) {
        if (!in_round_) {
            join(wish_);
        } else if (!in_barrier_) {
            post(MembershipChanged{"The host of the rendezvous took this node for dead, and it is alive"});
        }
        return;
    }
    if (const auto* failed = std::get_if<JobFailed>(&mail)) {
        failure_heard_ = terminal_safe(failed->text);
        if (in_round_) post(job_failed());
        return;
    }
    if (const auto* report = std::get_if<FailureReport>(&mail)) {
        hear_report(report->text);
        return;
    }
    if (const auto* word = std::get_if<PeerWord>(&mail)) {
        Json entry;
        entry["about"] = word->kind;
        entry["host"] = word->host;
        entry["from"] = word->from;
        entry["text"] = word->text;
        hear_note(entry);
        return;
    }
    if (const auto* round = std::get_if<RoundProgress>(&mail)) {
        led_progress_ = round->progress;
        return;
    }
    if (const auto* formed = std::get_if<RoundFormed>(&mail)) obey(*formed);
    if (const auto* over = std::get_if<JoinEnded>(&mail)) obey(*over);
    if (const auto* restart = std::get_if<RestartNeeded>(&mail)) obey(*restart);
    if (const auto* back = std::get_if<Reinstated>(&mail)) obey(*back);
    if (const auto* closing = std::get_if<RunClosed>(&mail)) obey(*closing);
}

/// A host tells those who wait how far it is.
awaitable<void> C10dMeeting::tell_progress() {
    while (!ended()) {
        extend_lease(Clock::now() + part_of_bound(guard_part));
        co_await pause(std::min<milliseconds>(progress_told_every, part_of_bound(sign_of_life_part)));
        if (ended()) co_return;
        for (const NodeId& node : desk_->led()) {
            JoinProgress progress = machine_.progress(node, now());
            if (progress.gives_up_in) desk_->post(node, RoundProgress{std::move(progress)});
        }
        desk_->flush();
    }
}

// --- the state ---

void C10dMeeting::obey(const ReadState& /*command*/) {
    spawn(read_state());
}

void C10dMeeting::obey(const SwapState& command) {
    spawn(swap_state(command.desired));
}

void C10dMeeting::obey(const WakeAt& command) {
    wake_timer_.expires_at(Clock::time_point(command.steady));
    wake_timer_.async_wait([this](boost::system::error_code error) {
        if (!error) feed(TimeCame{});
    });
}

/// The newest rounds' keys may still be read; those of the others only fill the hosted store. torchrun's agents keep to
/// the workers' address of the first round that they were in.
void C10dMeeting::forget_old_rounds(const RoundMembers& newest) {
    if (hosted() == nullptr || (!kept_rounds_.empty() && newest.round <= kept_rounds_.back().round)) return;
    kept_rounds_.push_back({newest.round, newest.by_rank.size(), torchrun_among(newest)});
    if (kept_rounds_.size() <= rounds_kept) return;
    const KeptRound old = kept_rounds_.front();
    kept_rounds_.pop_front();
    const std::string prefix = "/" + round_prefix(old.round);
    const std::string done = fmt::format("/{}done/{}/", own_prefix(), old.round);
    std::vector<std::string> keys;
    for (std::size_t rank = 0; rank < old.world; ++rank) {
        keys.push_back(fmt::format("{}torchelastic/role_info/{}", prefix, rank));
        keys.push_back(fmt::format("{}torchelastic/assigned_ranks/{}", prefix, rank));
        keys.push_back(done + std::to_string(rank));
    }
    keys.push_back(prefix + "torchelastic/agent/terminal_state/num_members");
    keys.push_back(prefix + "torchelastic/agent/terminal_state/last_member");
    if (!old.mixed)
        for (std::string& key : master_keys(prefix)) keys.push_back(std::move(key));
    hosted()->remove(keys);
}

Result<std::optional<RendezvousState>> C10dMeeting::decode(const std::string& text) {
    BOOST_OUTCOME_TRY(DecodedState decoded, decode_state(text, &me_));
    if (decoded.dialect_is_certain || !dialect_known_) dialect_ = decoded.dialect;
    dialect_known_ = dialect_known_ || decoded.dialect_is_certain;
    unknown_ = std::move(decoded.unknown);
    if (!decoded.mixed.empty() && !std::exchange(mixed_told_, true)) log(LogLevel::warning, decoded.mixed, true);
    return std::move(decoded.state);
}

awaitable<void> C10dMeeting::read_state() {
    const auto link = ops();
    // Not by ?: - GCC 12 makes wrong code of that around co_await.
    StoreResult<std::string> text = StoreFailure{};
    if (hosted() != nullptr) {
        text = hosted()->get("/" + state_key()).value_or("");
    } else {
        text = co_await link->get(state_key());
    }
    if (!text) {
        feed(StoreSilent{});
        if (!ended() && link == ops()) spawn(mend_links());
        co_return;
    }
    const auto state = decode(text.value());
    if (!state) {
        fail(failure(fmt::format("the state of the run '{}' in the store makes no sense: {}", rendezvous().run_id,
                                 state.error().message)));
        co_return;
    }
    token_ = text.value();
    if (hosted() == nullptr && (!state.value() || !state.value()->complete)) co_await read_rank_wishes();
    feed(StateSeen{state.value()});
}

/// Any agent may be the one that completes the round, so all read all wishes.
awaitable<void> C10dMeeting::read_rank_wishes() {
    const auto link = ops();
    const auto there = co_await link->check(own_prefix() + "ranks");
    if (!there || !there.value()) co_return;
    const auto text = co_await link->get(own_prefix() + "ranks");
    if (!text) co_return;
    RanksWanted wanted;
    std::string_view left = text.value();
    while (!left.empty()) {
        const std::string_view line = left.substr(0, left.find('\n'));
        left.remove_prefix(std::min(left.size(), line.size() + 1));
        const auto tab = line.find('\t');
        if (tab == std::string_view::npos) continue;
        const auto rank = whole_number(line.substr(0, tab));
        const auto node = parse_node(line.substr(tab + 1));
        if (rank && node) wanted.ranks[*node] = *rank;
    }
    if (!wanted.ranks.empty()) feed(std::move(wanted));
}

awaitable<void> C10dMeeting::swap_state(RendezvousState desired) {
    const auto link = ops();
    const std::string text = encode_state(desired, dialect_, unknown_);
    const std::string expected = token_;
    StoreResult<std::string> reply = StoreFailure{};
    if (hosted() != nullptr) {
        reply = hosted()->compare_set("/" + state_key(), expected, text);
    } else {
        reply = co_await link->compare_set(state_key(), expected, text);
    }
    if (!reply) {
        feed(StoreSilent{});
        if (!ended() && link == ops()) spawn(mend_links());
        co_return;
    }
    const bool taken = reply.value() == text;
    if (!taken && reply.value() == expected) {
        fail(failure(fmt::format("the state of the run '{}' has vanished from the store", rendezvous().run_id)));
        co_return;
    }
    token_ = reply.value();
    if (taken) {
        extend_lease(lease_of_state());
        if (!host_is_cpprun()) tell_of_change();
        feed(SwapAnswered{true, std::move(desired)});
        co_return;
    }
    const auto state = decode(reply.value());
    if (!state) {
        fail(failure(fmt::format("the state of the run '{}' in the store makes no sense: {}", rendezvous().run_id,
                                 state.error().message)));
        co_return;
    }
    feed(SwapAnswered{false, state.value()});
}

void C10dMeeting::obey(const RoundFormed& command) {
    // A led agent is told of two members only; its host counts.
    change_ = led_ || !members_ ? std::string{} : change_of_members(*members_, *command.members);
    members_ = command.members;
    round_told_ = true;
    rank_ = static_cast<int>(command.rank);
    mixed_ = led_ ? command.mixed : torchrun_among(*command.members);
    spawn(take_place(command.members, static_cast<int>(command.rank), serial_));
}

void C10dMeeting::obey(const JoinEnded& command) {
    ++serial_;
    switch (command.why) {
        case JoinEnded::Why::spare_ended:
            log(LogLevel::info, "the run has ended, and this spare node was not needed");
            post(JoinFailed{{}, true});
            return;
        case JoinEnded::Why::closed:
            post(JoinFailed{
                failure(failure_heard_.empty()
                            ? fmt::format("the run '{}' is over: its rendezvous is closed", rendezvous().run_id)
                            : "the job has failed: " + failure_heard_,
                        failure_heard_.empty() ? "start a new run with another --rdzv-id" : ""),
                false});
            return;
        case JoinEnded::Why::timed_out: {
            const JoinProgress progress = led_ ? led_progress_ : machine_.progress(me_, now());
            post(JoinFailed{failure(fmt::format("{} of at least {} nodes came within {} s (here: {})", progress.here,
                                                rendezvous().min_nodes, seconds_of("join_timeout", 600).count() / 1000,
                                                fmt::join(progress.nodes, ", ")),
                                    "start the missing nodes, or give them more time with --rdzv-conf join_timeout=N"),
                            false});
            return;
        }
    }
}

void C10dMeeting::obey(const RestartNeeded& command) {
    if (!in_round_) {
        join(wish_);  // the round broke before this node had its place
        return;
    }
    switch (command.why) {
        case RestartNeeded::Why::newcomers:
            post(MembershipChanged{fmt::format("Detected {} new nodes from group_rank={} ({})", command.nodes.size(),
                                               rank_, names(command.nodes))});
            return;
        case RestartNeeded::Why::lost:
            spawn(judge_loss(command.nodes, serial_));
            return;
        case RestartNeeded::Why::left_out:
            post(MembershipChanged{"The other nodes have gone on to a later round without this one"});
            return;
    }
}

/// A member is gone. Those who have ended well may go; torchrun's agents then send no heartbeats.
awaitable<void> C10dMeeting::judge_loss(std::vector<NodeId> nodes, std::int64_t serial) {
    const auto link = ops();
    const std::string members = round_prefix(members_->round) + "torchelastic/agent/terminal_state/num_members";
    const auto through = co_await link->add(members, 0);
    if (serial != serial_ || ended()) co_return;
    const auto count = through ? through.value() : 0;
    const std::int64_t others = count - (in_barrier_ ? 1 : 0);
    if (others >= static_cast<std::int64_t>(nodes.size())) {
        log(LogLevel::info, fmt::format("{} has ended well and is no longer heard of", names(nodes)));
        feed(StayWish{me_, nodes});
        co_return;
    }
    if (in_barrier_ &&
        count + static_cast<std::int64_t>(nodes.size()) >= static_cast<std::int64_t>(members_->by_rank.size())) {
        post(RunEnded{failure(fmt::format("this node has ended well, but {} was lost before its end", names(nodes)))});
        co_return;
    }
    for (std::size_t at = 0; at < nodes.size() && at < words_shown_max; ++at)
        if (!nodes[at].addr.empty()) co_await show_words(node_text(nodes[at]), nodes[at].addr);
    if (serial != serial_ || ended()) co_return;
    MembershipChanged changed{fmt::format("Lost {}", names(nodes))};
    for (const NodeId& node : nodes) changed.lost.push_back(node.addr);
    post(std::move(changed));
}

void C10dMeeting::obey(const RunClosed& /*command*/) {
    spawn(tell_of_closing());
}

awaitable<void> C10dMeeting::tell_of_closing() {
    const auto link = ops();
    const std::int64_t serial = serial_;
    if (!in_round_) {
        // The workers were not even started.
        if (failure_heard_.empty()) co_await pause(milliseconds(20));
        if (serial == serial_ && !ended()) obey(JoinEnded{me_, JoinEnded::Why::closed});
        co_return;
    }
    // Whoever closes a failed run of cpprun's has told first, and news travel as fast as the state.
    co_await pause(milliseconds(20));
    if (serial != serial_ || ended() || !failure_heard_.empty()) co_return;
    // When all are through, the barrier's last key is there.
    if (in_barrier_) co_await pause(lost_agent_grace);
    if (serial != serial_ || ended()) co_return;
    post(RunEnded{failure("another node has ended the run, most likely after a failure: its output says which")});
}

void C10dMeeting::obey(const Reinstated& /*command*/) {
    log(LogLevel::warning,
        "another node had taken this one for dead and out of the round; it is alive and has put itself back", true);
}

void C10dMeeting::obey(const FenceDue& /*command*/) {
    if (!in_round_ || in_barrier_) return;
    post(Fenced{"The store cannot be reached, and the other nodes may go on without this one"});
}

void C10dMeeting::obey(const ClockSkewed& command) {
    log(LogLevel::warning,
        fmt::format(
            "the clock of {} is {:.1f} s {} this node's; torchrun's agents drop nodes when clocks differ by more "
            "than a few seconds",
            terminal_safe(command.node.addr), std::abs(static_cast<double>(command.ahead.count())) / 1000,
            command.ahead.count() > 0 ? "ahead of" : "behind"),
        true);
}

void C10dMeeting::obey(const NewcomersHeldBack& command) {
    log(LogLevel::warning,
        fmt::format(
            "{} has to wait for up to {:.0f} s to be let in: nodes that came or went have ended {} round{} within "
            "a minute each",
            names(command.nodes), std::chrono::duration<double>(command.wait).count(), command.short_rounds,
            command.short_rounds == 1 ? "" : "s in a row"),
        true);
}

void C10dMeeting::obey(const RankWishesIgnored& command) {
    log(LogLevel::warning,
        fmt::format("--node-rank cannot be honoured as given, so these nodes are in the usual order: {}",
                    terminal_safe(fmt::format("{}", fmt::join(command.problems, "; ")))),
        true);
}

// --- a place in a round ---

bool C10dMeeting::torchrun_among(const RoundMembers& members) const {
    if (!desk_) return true;
    return std::any_of(members.by_rank.begin(), members.by_rank.end(),
                       [this](const NodeId& node) { return node != me_ && !desk_->leads(node); });
}

awaitable<void> C10dMeeting::take_place(std::shared_ptr<const RoundMembers> members, int rank, std::int64_t serial) {
    const auto stale = [&] { return serial != serial_ || ended(); };
    auto link = co_await open_link(seconds_of("read_timeout", 60));
    if (stale()) co_return;
    const auto give_up = [&](const Error& error) {
        // What broke the exchange may be that the round itself is over; then the state says so soon.
        log(LogLevel::warning, fmt::format("round {}: {}", members->round, error.message), true);
        join(wish_);
    };
    if (!link) {
        give_up(link.error());
        co_return;
    }
    place_link_ = link.value();
    const auto shared = place_link_;
    if (!change_.empty()) {
        const auto changes = co_await count_change(members->round);
        if (stale()) co_return;
        // Where the store did not answer, what follows will tell.
        if (changes && end_over_changes(changes.value())) co_return;
    }
    const auto master = co_await find_master(shared, *members, rank);
    if (stale()) co_return;
    if (!master) {
        give_up(master.error());
        co_return;
    }
    const std::string prefix = round_prefix(members->round);
    const int world = static_cast<int>(members->by_rank.size());
    const auto waiting_for = [this, members](const std::vector<int>& missing) {
        return "waiting for word of " + describe(*members, missing);
    };
    const auto ranks =
        co_await exchange_ranks(shared, prefix, rank, world, seconds_of("read_timeout", 60), waiting_for);
    if (stale()) co_return;
    if (!ranks) {
        give_up(ranks.error());
        co_return;
    }
    if (stood_still()) {
        give_up(failure("this node has not been heard of for so long that the others may have gone on without it"));
        co_return;
    }
    RoundPlace place;
    place.round = members->round;
    place.ranks = ranks.value();
    place.master = master.value();
    place.restart_count = wish_.restart_count;
    for (const NodeId& node : members->by_rank) place.members.push_back(node.addr);
    in_round_ = true;
    const auto taken = std::chrono::duration<double>(Clock::now() - joined_at_).count();
    log(LogLevel::info, fmt::format("round {}: node {} of {} after {:.3f} s, members: {}", members->round, rank, world,
                                    taken, names(members->by_rank)));
    post(RoundReady{std::move(place)});
}

/// How often the members have changed by now. All nodes that know count, one for all of them.
C10dMeeting::Async<std::int64_t> C10dMeeting::count_change(std::int64_t round) {
    const std::string total = own_prefix() + "changes";
    const auto of_round = co_await ops()->add(fmt::format("{}/{}", total, round), 1);
    if (!of_round) co_return as_error(of_round.error());
    const auto count = co_await ops()->add(total, of_round.value() == 1 ? 1 : 0);
    if (!count) co_return as_error(count.error());
    co_return count.value();
}

bool C10dMeeting::end_over_changes(std::int64_t changes) {
    log(LogLevel::info, fmt::format("membership change {} of the run: {}", changes, change_));
    const auto limit = config().restart.membership_changes;
    if (!limit || changes <= *limit) return false;
    ends_the_run_ = true;
    ++serial_;
    post(JoinFailed{failure(fmt::format("the nodes of the run have changed {} times ({}), and "
                                        "--max-membership-changes={} allows no more",
                                        changes, change_, *limit)),
                    false});
    return true;
}

C10dMeeting::Async<MasterAddress> C10dMeeting::serve_workers() {
    if (config().worker_store == WorkerStore::rank0) {
        reserved_port_.reset();
        auto port = reserve_port(config().store.worker_ports);
        if (!port) co_return port.error();
        reserved_port_ = std::move(port.value());
        co_return master_at(own_address_, reserved_port_->port, false);
    }
    if (!worker_store_) {
        auto store = StoreHost::start(listen_spec(config().store, config().store.worker_ports), complain());
        if (!store) co_return store.error();
        worker_store_ = std::move(store.value());
    } else {
        worker_store_->reset();
    }
    co_return master_at(own_address_, worker_store_->port(), true);
}

C10dMeeting::Async<MasterAddress> C10dMeeting::find_master(std::shared_ptr<StoreLink> link, const RoundMembers& members,
                                                           int rank) {
    const std::string prefix = round_prefix(members.round);
    const bool agent_store = config().worker_store == WorkerStore::agent;
    // Workers of a former round may have left something in a store of this agent's, whoever is node 0 now.
    if (worker_store_ && rank != 0) worker_store_->reset();
    if (rank == 0) {
        auto own = co_await serve_workers();
        if (!own) co_return own.error();
        if (mixed_ && members.round > 0) {
            auto known = co_await master_still_there(link, members.round);
            if (!known) co_return known.error();
            if (known.value()) own = std::move(*known.value());
        }
        const auto told = co_await link->multi_set(master_keys(prefix), master_values(own.value()));
        if (!told) co_return as_error(told.error());
        co_return std::move(own.value());
    }
    const std::vector<std::string> keys = master_keys(prefix);
    const std::string first = terminal_safe(members.by_rank.front().addr);
    const auto soon = co_await link->wait(keys, master_grace);
    if (!soon) {
        if (soon.error().kind != StoreFailure::Kind::timeout) co_return as_error(soon.error());
        // A torchrun agent publishes the address in the first of its rounds only.
        auto earlier = co_await earlier_master(link, members);
        if (!earlier) co_return earlier.error();
        if (earlier.value()) co_return std::move(*earlier.value());
        const auto missing = co_await wait_for_all(
            link, keys, seconds_of("read_timeout", 60),
            [&](const std::vector<int>&) { return fmt::format("waiting for the address of node 0, {}", first); });
        if (!missing) co_return missing.error();
        if (!missing.value().empty())
            co_return failure(fmt::format("node 0, {}, has not told where the workers meet", first));
    }
    const auto values = co_await link->multi_get(keys);
    if (!values) co_return as_error(values.error());
    const auto port = port_number(values.value()[1]);
    if (!port)
        co_return failure(fmt::format("node 0, {}, told a port that makes no sense: '{}'", first,
                                      terminal_safe(values.value()[1].substr(0, 100))));
    co_return master_at(values.value()[0], *port, agent_store);
}

C10dMeeting::Async<std::optional<MasterAddress>> C10dMeeting::published_master(std::shared_ptr<StoreLink> link,
                                                                               std::int64_t round) {
    const std::vector<std::string> keys = master_keys(round_prefix(round));
    const auto there = co_await link->check(keys);
    if (!there) co_return as_error(there.error());
    if (!there.value()) co_return std::nullopt;
    const auto values = co_await link->multi_get(keys);
    if (!values) co_return as_error(values.error());
    co_return master_at(values.value()[0], port_number(values.value()[1]).value_or(0),
                        config().worker_store == WorkerStore::agent);
}

/// torchrun's agents keep to the address of their first round, so a new node 0 has to keep to it too, as long as
/// somebody serves there.
C10dMeeting::Async<std::optional<MasterAddress>> C10dMeeting::master_still_there(std::shared_ptr<StoreLink> link,
                                                                                 std::int64_t before) {
    for (std::int64_t round = before - 1; round >= 0; --round) {
        auto known = co_await published_master(link, round);
        if (!known) co_return known.error();
        if (!known.value()) continue;
        if (known.value()->port == 0) co_return std::nullopt;
        StoreLinkSettings settings;
        settings.host = known.value()->host;
        settings.port = known.value()->port;
        settings.connect_timeout = lost_agent_grace;
        StoreLink probe(executor(), settings);
        const auto answered = co_await probe.connect();
        if (!answered) co_return std::nullopt;
        co_return known;
    }
    co_return std::nullopt;
}

C10dMeeting::Async<std::optional<MasterAddress>> C10dMeeting::earlier_master(std::shared_ptr<StoreLink> link,
                                                                             const RoundMembers& members) {
    for (std::int64_t round = members.round - 1; round >= 0; --round) {
        auto known = co_await published_master(link, round);
        if (!known) co_return known.error();
        // It publishes the name by which the state knows it.
        const auto& master = known.value();
        if (!master || master->host != members.by_rank.front().addr || master->port == 0) continue;
        log(LogLevel::info, fmt::format("node 0 has not told its address in round {}; that of round {} is used: {}:{}",
                                        members.round, round, terminal_safe(master->host), master->port));
        co_return known;
    }
    co_return std::nullopt;
}

// --- the end ---

awaitable<void> C10dMeeting::wait_for_others(std::shared_ptr<const RoundMembers> members, int rank,
                                             std::int64_t serial) {
    const auto stale = [&] { return serial != serial_ || ended(); };
    if (!place_link_ || !place_link_->usable()) {
        auto link = co_await open_link(seconds_of("read_timeout", 60));
        if (stale()) co_return;
        if (!link) {
            post(RunEnded{link.error()});
            co_return;
        }
        place_link_ = link.value();
    }
    const auto link = place_link_;
    const auto waiting_for = [this, members](const std::vector<int>& missing) {
        return "waiting for " + describe(*members, missing);
    };
    const bool serves = hosted() != nullptr || (worker_store_ && rank == 0);
    const auto passed = co_await pass_exit_barrier(link, round_prefix(members->round),
                                                   own_prefix() + "done/" + std::to_string(members->round) + "/", rank,
                                                   static_cast<int>(members->by_rank.size()), serves, waiting_for);
    if (stale()) co_return;
    if (!passed) {
        if (host_is_cpprun()) {
            post(RunEnded{failure("this node has ended well, but the end of the others is not known: " +
                                  passed.error().message)});
        } else {
            log(LogLevel::warning, "Error waiting on exit barrier: " + passed.error().message, true);
            post(BarrierPassed{});
        }
        co_return;
    }
    others_work_ = !passed.value();
    post(BarrierPassed{});
}

awaitable<void> C10dMeeting::say_goodbye(RunResult result, std::function<void()> done) {
    const bool failed = ends_the_run_ || result.outcome == RunResult::Outcome::workers_failed ||
                        (result.outcome == RunResult::Outcome::not_started && in_round_);
    // Who leaves while others still work does not end the run.
    const bool good = result.outcome == RunResult::Outcome::succeeded && in_round_ && !others_work_;
    const auto deadline = Clock::now() + goodbye_max;
    if (failed) co_await own_failure_heard();
    if (links_up()) {
        if (failed) {
            const std::string text =
                result.failures.empty() ? host_name() + ": " + result.error.message : failure_text(result);
            const std::string report = failure_report_text(result);
            if (!report.empty()) {
                tell_led(FailureReport{report});
                Json entry;
                entry["text"] = report;
                static_cast<void>(co_await publish("report", std::move(entry)));
            }
            Json entry;
            entry["text"] = text;
            tell_led(JobFailed{text});
            static_cast<void>(co_await publish("failure", std::move(entry)));
        }
        set_ended();
        if (led_) {
            // In this order, and the answer to a last question says that all has arrived.
            MembershipEvent closing = CloseWish{};
            MembershipEvent leaving = LeaveWish{me_};
            if (failed || good) co_await send_wish(std::move(closing));
            co_await send_wish(std::move(leaving));
            const auto link = ops();
            static_cast<void>(co_await link->check(state_key()));
        } else {
            if (failed || good) feed(CloseWish{});
            feed(LeaveWish{me_});
            // The machine's last changes, in whatever order races let them through.
            while (Clock::now() < deadline && ops()->usable()) {
                const auto& view = machine_.view();
                const bool out = view && !view->participants.contains(me_) && !view->wait_list.contains(me_) &&
                                 !view->redundancy_list.contains(me_);
                if (out && (!(failed || good) || view->closed)) break;
                co_await pause(milliseconds(1));
            }
        }
    }
    set_ended();
    wake_timer_.cancel();
    const bool others_are_to_hear = hosted() != nullptr && result.outcome != RunResult::Outcome::signaled;
    if (others_are_to_hear) co_await see_others_off(others_leave_max);
    if (desk_) desk_->stop();
    close_links();
    done();
}

void C10dMeeting::tell_of_change() {
    spawn([](C10dMeeting* self) -> awaitable<void> {
        if (self->links_up()) static_cast<void>(co_await self->publish("state"));
    }(this));
}

/// torch's clients have read_timeout for this; who has not set it expects that late nodes are waited for.
C10dMeeting::Milliseconds C10dMeeting::connect_time() const {
    return rendezvous().conf.contains("read_timeout") ? seconds_of("read_timeout", 60)
                                                      : seconds_of("join_timeout", 600);
}

bool C10dMeeting::stood_still() const {
    if (led_) return Clock::now() - last_sign_of_life_ >= part_of_bound(lease_part);
    const auto last = machine_.last_heartbeat(me_);
    return last && now().steady - *last >= settings_.fence_after;
}

Clock::time_point C10dMeeting::lease_of_state() const {
    if (desk_) return Clock::now() + part_of_bound(guard_part);
    return Clock::now() + settings_.keep_alive_interval * settings_.keep_alive_attempts * 4 / 5;
}

C10dMeeting::Milliseconds C10dMeeting::seconds_of(const char* key, int otherwise) const {
    return conf_seconds(rendezvous().conf, key, seconds(otherwise));
}

awaitable<void> C10dMeeting::show_progress() {
    const std::int64_t serial = serial_;
    milliseconds patience{3'000};
    for (;;) {
        co_await pause(patience);
        patience = waiting_pace();
        if (ended() || serial != serial_ || in_round_) co_return;
        const JoinProgress progress = led_ ? led_progress_ : machine_.progress(me_, now());
        if (progress.spare) {
            log(LogLevel::warning,
                fmt::format("this node is a spare: {} of {} nodes are in the round already", progress.here,
                            rendezvous().max_nodes),
                true);
            patience = milliseconds(60'000);
            continue;
        }
        std::string text =
            progress.waiting
                ? fmt::format("waiting for {} running nodes to let this one in", progress.here)
                : fmt::format("{} of {} nodes are here ({})", progress.here,
                              rendezvous().min_nodes == rendezvous().max_nodes
                                  ? std::to_string(rendezvous().min_nodes)
                                  : fmt::format("{} to {}", rendezvous().min_nodes, rendezvous().max_nodes),
                              terminal_safe(fmt::format("{}", fmt::join(progress.nodes, ", "))));
        if (progress.last_call)
            text += fmt::format("; last call ends in {} s",
                                std::chrono::ceil<std::chrono::seconds>(*progress.last_call).count());
        if (progress.gives_up_in)
            text += fmt::format("; gives up in {} s",
                                std::chrono::ceil<std::chrono::seconds>(*progress.gives_up_in).count());
        log_waiting(text);
    }
}

}  // namespace cpprun
