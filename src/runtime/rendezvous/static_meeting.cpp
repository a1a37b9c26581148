// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rendezvous/static_meeting.hpp"

#include "core/rendezvous/conf_values.hpp"
#include "core/text/json_fields.hpp"
#include "core/text/python_json.hpp"
#include "core/text/terminal_safe.hpp"
#include "core/text/whole_number.hpp"
#include "runtime/diagnostics.hpp"

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace cpprun {
namespace {

using boost::asio::awaitable;
using boost::outcome_v2::success;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds static_goodbye_max{1'000};
constexpr milliseconds static_others_leave_max{3'000};
constexpr milliseconds lost_holder_grace{1'000};
constexpr seconds host_asked_every{5};
constexpr std::size_t peers_max = 100'000;
constexpr const char* live_prefix = "cpprun/live/static/";

Json parse(const std::string& text) {
    return parse_foreign_json<Json>(text, message_bytes_max);
}

std::string text_of(const Json& object, const char* name) {
    return terminal_safe(text_field(object, name).value_or(""));
}

std::int64_t number_of(const Json& object, const char* name) {
    return integer_field(object, name).value_or(-1);
}

Json restart_entry(std::int64_t attempt, const std::string& text, std::optional<int> spent = {}) {
    Json entry{{"attempt", attempt}, {"text", text}};
    if (spent) entry["spent"] = *spent;
    return entry;
}

Json node_entry(int rank, const std::string& text) {
    return Json{{"node_rank", rank}, {"text", text}};
}

std::string attempt_text(std::int64_t attempt, bool all_cpprun) {
    return python_json(Json{{"attempt", attempt}, {"all_cpprun", all_cpprun ? 1 : 0}});
}

KeepOnReset kept_between_attempts(const std::string& agents) {
    return {{"/cpprun/", agents + "role_info/", agents + "assigned_ranks/", "init/"}};
}

std::string description(const Json& identity) {
    return fmt::format("{} (pid {})", text_of(identity, "host"), number_of(identity, "pid"));
}

}  // namespace

StaticMeeting::StaticMeeting(const LaunchConfig& config, const HostFacts& host, boost::asio::any_io_executor executor,
                             StoreLog complain)
    : StoreMeeting(config, host, executor, std::move(complain)) {}

StaticMeeting::~StaticMeeting() {
    close_store();  // its observer is this object
}

StaticMeeting::Milliseconds StaticMeeting::timeout() const {
    return std::max(milliseconds(1), conf_seconds(rendezvous().conf, "timeout", std::chrono::seconds(900)));
}

std::string StaticMeeting::attempt_key(const char* what, std::int64_t attempt) const {
    return fmt::format("{}{}/{}", own_prefix(), what, attempt);
}

std::string StaticMeeting::waiting_for(const std::vector<int>& missing) const {
    std::vector<std::string> texts;
    for (const int one : missing) {
        const auto host = hosts_.find(one);
        texts.push_back(host == hosts_.end() ? std::to_string(one) : fmt::format("{} ({})", one, host->second));
        if (texts.size() == 16) break;
    }
    return fmt::format("waiting for node rank{} {}", missing.size() == 1 ? "" : "s", first_of(texts, missing.size()));
}

std::string StaticMeeting::card() const {
    return python_json(Json{{"version", 1},
                            {"node_rank", rank()},
                            {"nodes", nodes()},
                            {"run_id", rendezvous().run_id},
                            {"host", host_name()},
                            {"pid", pid()}});
}

// --- the agent's wishes ---

void StaticMeeting::enter_exit_barrier() {
    in_barrier_ = true;
    spawn(wait_for_others(serial_));
}

// --- the first attempt ---

void StaticMeeting::opened() {
    ready();
}

void StaticMeeting::join_again() {
    spawn(next_attempt(wish_, serial_));
}

void StaticMeeting::ready() {
    RoundPlace place;
    place.round = attempt_;
    place.ranks = ranks_;
    place.master = {rendezvous().host, rendezvous().port.value_or(0), config().worker_store == WorkerStore::agent};
    if (hosted() != nullptr) place.master.port = hosted()->port();
    place.restart_count = all_cpprun_ ? static_cast<int>(attempt_) : wish_.restart_count;
    place.members.resize(static_cast<std::size_t>(nodes()));
    for (const auto& [node, host] : hosts_) place.members.at(static_cast<std::size_t>(node)) = host;
    place.members.at(static_cast<std::size_t>(rank())) = host_name();
    in_round_ = true;
    post(RoundReady{std::move(place)});
}

StaticMeeting::Async<void> StaticMeeting::open() {
    if (rank() == 0) {
        ListenSpec spec = agents_listen_spec();
        spec.observed_silence = rendezvous().silent_after;
        spec.observer = [this](const StoreEvent& event) { observe(event); };
        const Result<void> hosting = host_store(std::move(spec));
        if (!hosting) co_return hosting.error();
    }
    const auto opened = co_await open_links(timeout());
    if (!opened) co_return opened.error();
    const auto checked = co_await check_identities();
    if (!checked) co_return checked.error();
    const auto begun = co_await news().begin(ops());
    if (!begun) co_return as_error(begun.error());
    const auto taken = co_await take_rank();
    if (!taken) co_return taken.error();
    spawn(hear_news());
    if (hosted() == nullptr) spawn(ask_after_host());
    if (ended()) co_return success();
    co_return co_await first_attempt();
}

/// What torchrun lets run wrongly: another number of nodes, another run.
StaticMeeting::Async<void> StaticMeeting::check_identities() {
    const auto identity = co_await read_host_identity();
    if (!identity) co_return identity.error();
    if (!identity.value() || hosted() != nullptr) co_return success();
    const auto& host = *identity.value();
    const std::string who = fmt::format("node 0, {} (pid {})", host.host, host.pid);
    if (host.run_id != rendezvous().run_id)
        co_return failure(fmt::format("{} runs with --rdzv-id={}, and this node, {}, with --rdzv-id={}", who,
                                      terminal_safe(host.run_id), own_description(), rendezvous().run_id),
                          "give all nodes of one run the same --rdzv-id, and each run a --master-port of its own");
    if (host.nodes_max != nodes())
        co_return failure(fmt::format("{} was started with --nnodes={}, and this node, {}, with --nnodes={}", who,
                                      host.nodes_max, own_description(), nodes()),
                          "give all nodes the same --nnodes");
    co_return success();
}

/// A rank belongs to the agent whose connection holds it; one whose connection is gone can be replaced.
StaticMeeting::Async<void> StaticMeeting::take_rank() {
    const std::string key = live_prefix + std::to_string(rank());
    const std::string own = card();
    if (!host_is_cpprun()) {
        const auto told = co_await ops()->set(own_prefix() + "node/" + std::to_string(rank()), own);
        if (!told) co_return as_error(told.error());
        co_return success();
    }
    const auto deadline = Clock::now() + lost_holder_grace;
    for (;;) {
        const auto holder = co_await watch()->compare_set(key, "", own);
        if (!holder) co_return as_error(holder.error());
        if (holder.value() == own) break;
        // Its end may be on the way.
        if (Clock::now() >= deadline)
            co_return failure(
                fmt::format("node rank {} is taken by {}; this node, {}, was started with --node-rank={} too", rank(),
                            description(parse(holder.value())), own_description(), rank()),
                "give each node a --node-rank of its own, from 0 to the number of nodes less one");
        co_await pause(milliseconds(50));
    }
    // So that the connection for requests counts as an agent's as well.
    const auto known = co_await ops()->set(own_prefix() + "node/" + std::to_string(rank()), own);
    if (!known) co_return as_error(known.error());
    co_return success();
}

StaticMeeting::Async<void> StaticMeeting::first_attempt() {
    const auto counted = co_await ops()->announce_worker();
    if (!counted) co_return as_error(counted.error());
    auto link = co_await open_link(timeout());
    if (!link) co_return link.error();
    place_link_ = link.value();
    const auto shared = place_link_;
    const auto marked = co_await shared->set(own_prefix() + "node/" + std::to_string(rank()), card());
    if (!marked) co_return as_error(marked.error());
    // A node that replaces a lost one finds the job in a later attempt.
    const auto running = co_await shared->check(own_prefix() + "attempt");
    if (!running) co_return as_error(running.error());
    if (running.value()) {
        const auto attempt = co_await shared->get(own_prefix() + "attempt");
        if (!attempt) co_return as_error(attempt.error());
        const Json now = parse(attempt.value());
        all_cpprun_ = number_of(now, "all_cpprun") == 1;
        attempt_ = std::max<std::int64_t>(0, number_of(now, "attempt"));
        if (all_cpprun_) {
            ++attempt_;
            const auto told = co_await publish(
                "restart", restart_entry(attempt_, own_description() + " has taken the place of a lost node"));
            if (!told) co_return as_error(told.error());
            const auto together = co_await restart_together(shared, attempt_);
            if (!together) co_return together.error();
        }
    }
    const auto ranks =
        co_await exchange_ranks(shared, rendezvous().run_id + "/", rank(), nodes(), timeout(),
                                [this](const std::vector<int>& missing) { return waiting_for(missing); });
    if (!ranks) co_return ranks.error();
    ranks_ = ranks.value();
    if (running.value()) co_return success();
    if (hosted() != nullptr) {
        std::vector<std::string> cards;
        for (int one = 0; one < nodes(); ++one) cards.push_back(live_prefix + std::to_string(one));
        const auto all = co_await shared->check(cards);
        if (!all) co_return as_error(all.error());
        all_cpprun_ = all.value();
        hosted()->set("/" + own_prefix() + "attempt", attempt_text(0, all_cpprun_));
        hosted()->set("/" + own_prefix() + "agreed", all_cpprun_ ? "1" : "0");
    } else if (host_is_cpprun()) {
        const auto agreed = co_await shared->wait(own_prefix() + "agreed", timeout());
        if (!agreed) co_return as_error(agreed.error());
        const auto value = co_await shared->get(own_prefix() + "agreed");
        if (!value) co_return as_error(value.error());
        all_cpprun_ = value.value() == "1";
    }
    if (!all_cpprun_)
        log(LogLevel::info, "torchrun agents are in this job: each node restarts its workers by itself, as they do");
    co_return success();
}

// --- later attempts ---

awaitable<void> StaticMeeting::next_attempt(JoinRound wish, std::int64_t serial) {
    const auto stale = [&] { return serial != serial_ || ended(); };
    if (!all_cpprun_) {
        ++attempt_;
        if (!std::exchange(alone_told_, true))
            log(LogLevel::warning,
                "a torchrun agent is in this job: this node restarts alone, and its workers find what former ones left "
                "in the store",
                true);
        // As torchrun's agents do: the same keys again, whose answers are there already.
        ready();
        co_return;
    }
    auto link = co_await open_link(timeout());
    if (stale()) co_return;
    if (!link) {
        fail(link.error());
        co_return;
    }
    place_link_ = link.value();
    const auto shared = place_link_;
    const auto marked = co_await shared->set(own_prefix() + "node/" + std::to_string(rank()), card());
    if (stale()) co_return;
    if (!marked) {
        lost_store(marked.error());
        co_return;
    }
    const std::int64_t next = attempt_ + 1;
    if (wish.cause == JoinRound::Cause::failure)
        static_cast<void>(co_await publish(
            "restart", restart_entry(next, "Workers of " + host_name() + " have failed", wish_.spent)));
    if (stale()) co_return;
    attempt_ = next;
    const auto together = co_await restart_together(shared, next);
    if (stale()) co_return;
    if (!together) {
        fail(failure_heard_.empty() ? together.error() : failure("the job has failed: " + failure_heard_));
        co_return;
    }
    ready();
}

/// All nodes have stopped their workers before the store is emptied, and it is empty before any starts new ones.
StaticMeeting::Async<void> StaticMeeting::restart_together(std::shared_ptr<StoreLink> link, std::int64_t attempt) {
    const auto stopped = co_await link->set(attempt_key("stopped", attempt) + "/" + std::to_string(rank()), "1");
    if (!stopped) co_return as_error(stopped.error());
    const std::string go = attempt_key("go", attempt);
    if (hosted() == nullptr) {
        const auto missing = co_await wait_for_all(
            link, std::vector<std::string>(1, go), timeout(),
            [](const std::vector<int>&) { return std::string("waiting for the other nodes to stop their workers"); });
        if (!missing) co_return missing.error();
        if (!missing.value().empty()) co_return failure("the other nodes have not stopped their workers in time");
        co_return success();
    }
    std::vector<std::string> keys;
    for (int one = 0; one < nodes(); ++one) keys.push_back(attempt_key("stopped", attempt) + "/" + std::to_string(one));
    const auto missing = co_await wait_for_all(link, keys, timeout(), [this](const std::vector<int>& ranks) {
        return waiting_for(ranks) + " to be ready again";
    });
    if (!missing) co_return missing.error();
    if (!missing.value().empty())
        co_return failure(waiting_for(missing.value()) + " to be ready again, and the time is over");
    const std::string agents = "/" + rendezvous().run_id + "/torchelastic/";
    hosted()->reset(kept_between_attempts(agents));
    std::vector<std::string> old;
    for (int one = 0; one < nodes(); ++one)
        old.push_back("/" + attempt_key("stopped", attempt - 1) + "/" + std::to_string(one));
    old.push_back("/" + attempt_key("go", attempt - 1));
    hosted()->remove(old);
    hosted()->set("/" + own_prefix() + "attempt", attempt_text(attempt, true));
    hosted()->set("/" + go, "1");
    co_return success();
}

// --- what is heard ---

awaitable<void> StaticMeeting::hear_news() {
    const StoreFailure lost = co_await follow_news([this](const Json& entry) { hear(entry); });
    if (!ended()) lost_store(lost);
}

/// A host that is frozen closes nothing: it is asked for a sign of life.
awaitable<void> StaticMeeting::ask_after_host() {
    while (!ended()) {
        co_await pause(host_asked_every);
        if (ended()) co_return;
        const auto answer = co_await ops()->check("init/");
        if (!answer && !ended()) {
            lost_store(answer.error());
            co_return;
        }
    }
}

void StaticMeeting::hear(const Json& entry) {
    if (ended()) return;
    const std::string type = text_of(entry, "type");
    const std::string text = text_of(entry, "text");
    if (type == "note") {
        hear_note(entry);
    } else if (type == "report") {
        hear_report(text);
    } else if (type == "failure") {
        failure_heard_ = text;
        if (in_round_) {
            post(job_failed());
        } else if (place_link_) {
            place_link_->close();  // whatever is waited for does not come
        }
    } else if (type == "restart" && all_cpprun_ && number_of(entry, "attempt") > attempt_ && in_round_) {
        PeersRestart restart{text};
        if (const auto spent = integer_field(entry, "spent"))
            restart.spent = static_cast<int>(std::clamp<std::int64_t>(*spent, 0, std::numeric_limits<int>::max()));
        post(std::move(restart));
    } else if (type == "lost") {
        const int lost = static_cast<int>(number_of(entry, "node_rank"));
        if (!all_cpprun_ || !in_round_ || lost == rank()) return;
        spawn(show_words(std::to_string(lost), text_of(entry, "host")));
        if (wish_.spent < config().max_restarts && !in_barrier_) {
            PeersRestart restart{text + "; its place can be taken by a new agent with the same --node-rank"};
            restart.lost = {text_of(entry, "host")};
            post(std::move(restart));
        } else {
            post(RunEnded{failure(text)});
        }
    }
}

/// Not that of a torchrun host whose job has ended: it closes its store while others are in the exit barrier.
void StaticMeeting::lost_store(const StoreFailure& failed) {
    if (std::exchange(lost_, true)) return;  // each connection says it
    if (in_barrier_ && !host_is_cpprun()) {
        log(LogLevel::warning, "Error waiting on exit barrier: " + failed.message, true);
        post(BarrierPassed{});
        return;
    }
    // What a host has said before it went is not a lost connection.
    if (!failure_heard_.empty()) {
        fail(failure("the job has failed: " + failure_heard_));
        return;
    }
    fail(failure(fmt::format("node 0 is lost: {}", failed.message), "its own output says why it has ended"));
}

// --- the end ---

awaitable<void> StaticMeeting::wait_for_others(std::int64_t serial) {
    const auto stale = [&] { return serial != serial_ || ended(); };
    if (!place_link_ || !place_link_->usable()) {
        auto link = co_await open_link(timeout());
        if (stale()) co_return;
        if (!link) {
            lost_store({StoreFailure::Kind::connection, link.error().message});
            co_return;
        }
        place_link_ = link.value();
        static_cast<void>(co_await place_link_->set(own_prefix() + "node/" + std::to_string(rank()), card()));
    }
    const auto link = place_link_;
    const auto passed = co_await pass_exit_barrier(
        link, rendezvous().run_id + "/", attempt_key("done", attempt_) + "/", rank(), nodes(), hosted() != nullptr,
        [this](const std::vector<int>& missing) { return waiting_for(missing); });
    if (stale()) co_return;
    if (!passed) {
        lost_store({StoreFailure::Kind::connection, passed.error().message});
        co_return;
    }
    post(BarrierPassed{});
}

awaitable<void> StaticMeeting::say_goodbye(RunResult result, std::function<void()> done) {
    const bool good = result.outcome == RunResult::Outcome::succeeded;
    const bool told_by_others = result.outcome == RunResult::Outcome::ended_elsewhere;
    if (!good && !told_by_others) co_await own_failure_heard();
    if (links_up()) {
        const std::string text = result.outcome == RunResult::Outcome::signaled
                                     ? fmt::format("{} was stopped by signal {}", host_name(), result.signo)
                                 : result.failures.empty() ? host_name() + ": " + result.error.message
                                                           : failure_text(result);
        // No node can go on without this one: ranks are fixed.
        const std::string report = failure_report_text(result);
        if (!good && !told_by_others && opened_ && !report.empty())
            static_cast<void>(co_await publish("report", node_entry(rank(), report)));
        if (!good && !told_by_others && opened_)
            static_cast<void>(co_await publish("failure", node_entry(rank(), text)));
        if (opened_) static_cast<void>(co_await ops()->set(own_prefix() + "bye/" + std::to_string(rank()), "1"));
    }
    set_ended();
    if (opened_)
        co_await see_others_off(result.outcome == RunResult::Outcome::signaled ? static_goodbye_max
                                                                               : static_others_leave_max);
    close_links();
    done();
}

// --- what node 0 sees ---

void StaticMeeting::observe(const StoreEvent& event) {
    const std::uint64_t client = event.client;
    if (event.kind == StoreEvent::Kind::connection_closed) {
        boost::asio::post(executor(), [this, client] { peer_closed(client); });
    } else if (event.key.size() < 256) {
        boost::asio::post(
            executor(), [this, client, key = std::string(event.key), value = std::string(event.value.substr(0, 4096))] {
                peer_written(client, key, value);
            });
    }
}

void StaticMeeting::peer_written(std::uint64_t connection, const std::string& key, const std::string& value) {
    const std::string prefix = std::string("/") + live_prefix;
    if (!key.starts_with(prefix) || peers_.size() >= peers_max) return;
    const auto node = whole_number<int>(std::string_view(key).substr(prefix.size()));
    if (!node || *node < 0 || *node >= nodes()) return;
    peers_[connection] = *node;
    hosts_[*node] = text_of(parse(value), "host");
}

void StaticMeeting::peer_closed(std::uint64_t connection) {
    const auto peer = peers_.find(connection);
    if (peer == peers_.end()) return;
    const int node = peer->second;
    peers_.erase(peer);
    if (ended()) return;
    spawn([](StaticMeeting* self, int gone) -> awaitable<void> {
        const auto said_bye = [&] {
            return self->hosted() != nullptr &&
                   self->hosted()->get("/" + self->own_prefix() + "bye/" + std::to_string(gone)).has_value();
        };
        if (self->ended() || said_bye()) co_return;
        co_await self->pause(self->rendezvous().lost_after);
        if (self->ended() || said_bye()) co_return;
        const bool back = std::any_of(self->peers_.begin(), self->peers_.end(),
                                      [&](const auto& entry) { return entry.second == gone; });
        if (back || !self->links_up()) co_return;
        const std::string text = fmt::format("Lost node {} ({})", gone, self->hosts_[gone]);
        Json entry = node_entry(gone, text);
        entry["host"] = self->hosts_[gone];
        static_cast<void>(co_await self->publish("lost", std::move(entry)));
    }(this, node));
}

}  // namespace cpprun
