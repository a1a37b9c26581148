// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rendezvous/store_meeting.hpp"

#include "core/rendezvous/agent_mail.hpp"
#include "core/report/failure_report.hpp"
#include "core/report/failure_summary.hpp"
#include "core/report/peer_records.hpp"
#include "core/text/json_fields.hpp"
#include "core/text/python_json.hpp"
#include "core/text/terminal_safe.hpp"
#include "runtime/agent/listen_options.hpp"
#include "runtime/diagnostics.hpp"
#include "runtime/os/host_name.hpp"
#include "runtime/rendezvous/as_result.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>

namespace cpprun {
namespace {

using boost::outcome_v2::success;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::chrono::seconds first_word{3};
constexpr std::chrono::seconds next_words{10};
// Of more nodes nobody wants to read who is missing, and to ask for each would cost the store the square of them.
constexpr int asked_one_by_one_max = 64;
constexpr milliseconds reply_timeout{5'000};
constexpr const char* host_key = "cpprun/host";
constexpr std::size_t job_failures_max = 256;
constexpr milliseconds own_failure_heard_max{300};
// A report of 4 KiB whose bytes are all escaped.
constexpr std::size_t news_bytes_max = 32768;
// The bounds of --silent-after, and what a cpprun without that option waits.
constexpr std::int64_t silent_min_ms = 1'000;
constexpr std::int64_t silent_max_ms = 3'600'000;
constexpr std::int64_t default_silent_ms = 10'000;

/// Speaks after three seconds of waiting, `at_once` the first time, then every ten.
class Patience {
  public:
    bool time_to_speak(bool at_once) {
        const auto now = Clock::now();
        if (now < next_ && (!at_once || has_spoken_)) return false;
        has_spoken_ = true;
        next_ = now + waiting_pace();
        return true;
    }

  private:
    Clock::time_point next_ = Clock::now() + first_word;
    bool has_spoken_ = false;
};

int small_integer(const Json& object, const char* name) {
    return static_cast<int>(integer_field(object, name).value_or(0));
}

}  // namespace

StoreMeeting::StoreMeeting(const LaunchConfig& config, const HostFacts& host, boost::asio::any_io_executor executor,
                           StoreLog complain)
    : config_(config),
      executor_(executor),
      complain_(std::move(complain)),
      host_name_(full_host_name(host.host_name)),
      pid_(host.pid),
      news_(private_prefix(config.rendezvous.run_id)) {}

StoreMeeting::~StoreMeeting() = default;

void StoreMeeting::join(const JoinRound& wish) {
    wish_ = wish;
    in_round_ = false;
    in_barrier_ = false;
    ++serial_;
    if (place_link_) place_link_->close();
    if (opened_) {
        join_again();
    } else if (!opening_) {
        opening_ = true;
        spawn(open_and_join());
    }
}

boost::asio::awaitable<void> StoreMeeting::open_and_join() {
    const auto done = co_await open();
    opening_ = false;
    if (ended()) co_return;
    if (!done) {
        fail(done.error());
        co_return;
    }
    opened_ = true;
    opened();
}

void StoreMeeting::end(const RunResult& result, std::function<void()> done) {
    fall_silent();
    ++serial_;
    if (place_link_) place_link_->close();
    spawn(say_goodbye(result, std::move(done)));
}

void StoreMeeting::fail(Error error) {
    if (in_round_) {
        post(RunEnded{std::move(error)});
    } else {
        post(JoinFailed{std::move(error)});
    }
}

std::string StoreMeeting::first_of(const std::vector<std::string>& texts, std::size_t total) {
    const std::size_t more = total - texts.size();
    return fmt::format("{}{}", fmt::join(texts, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string StoreMeeting::own_description() const {
    return fmt::format("{} (pid {})", host_name_, pid_);
}

void StoreMeeting::spawn(boost::asio::awaitable<void> flow) {
    boost::asio::co_spawn(executor_, std::move(flow), [](std::exception_ptr error) {
        if (error) std::rethrow_exception(error);
    });
}

boost::asio::awaitable<void> StoreMeeting::pause(Milliseconds time) {
    boost::asio::steady_timer timer(executor_, time);
    co_await timer.async_wait(as_result);
}

ListenSpec StoreMeeting::agents_listen_spec() const {
    ListenSpec spec = listen_spec(config_.store, rendezvous().port.value_or(0));
    spec.initial_values = {{std::string("/") + host_key, host_identity_text()}};
    spec.agent_prefixes = {"/cpprun/"};
    spec.ephemeral_prefixes = {"/cpprun/live/"};
    spec.observed_prefixes = {"/cpprun/live/"};
    return spec;
}

std::string StoreMeeting::host_identity_text() const {
    return python_json(Json{{"version", 1},
                            {"run_id", rendezvous().run_id},
                            {"host", host_name_},
                            {"pid", pid_},
                            {"nodes_min", rendezvous().min_nodes},
                            {"nodes_max", rendezvous().max_nodes},
                            {"silent_after_ms", rendezvous().silent_after.count()}});
}

Result<void> StoreMeeting::host_store(ListenSpec spec) {
    auto started = StoreHost::start(spec, complain_);
    if (!started) {
        Error error = started.error();
        const bool fixed = rendezvous().kind == RendezvousKind::static_ranks;
        error.hint = fmt::format("the port is that of {}{}{}", fixed ? "--master-port" : "--rdzv-endpoint",
                                 error.hint.empty() ? "" : "; ", error.hint);
        return error;
    }
    store_ = std::move(started.value());
    log(LogLevel::info,
        fmt::format("Process {} hosts the TCP store for the rendezvous, port {}.", pid_, store_->port()));
    return success();
}

StoreMeeting::Async<std::shared_ptr<StoreLink>> StoreMeeting::open_link(Milliseconds connect_timeout) {
    StoreLinkSettings settings;
    settings.host = !store_ ? rendezvous().host : config_.store.bind.value_or("127.0.0.1");
    settings.port = store_ ? store_->port() : rendezvous().port.value_or(0);
    settings.connect_timeout = connect_timeout;
    settings.reply_timeout = reply_timeout;
    const auto begin = Clock::now();
    const auto patience = std::make_shared<Patience>();
    settings.on_retry = [this, begin, connect_timeout, patience](const std::string& problem, Milliseconds /*next*/) {
        // A wrong name does not get right by waiting, though it may yet be announced.
        const bool at_once = problem.find("does not resolve") != std::string::npos;
        if (ended() || !patience->time_to_speak(at_once)) return;
        const auto left = std::chrono::ceil<std::chrono::seconds>(connect_timeout - (Clock::now() - begin));
        const std::string why = why_not_host();
        log_waiting(fmt::format("waiting for the store at {}:{} ({}{}); {} s left", rendezvous().host,
                                rendezvous().port.value_or(0), problem,
                                why.empty() || problem.find(why) != std::string::npos
                                    ? std::string()
                                    : "; this node is not the host because " + why,
                                left.count()));
    };
    auto link = std::make_shared<StoreLink>(executor_, std::move(settings));
    const auto connected = co_await link->connect();
    if (!connected) co_return as_error(connected.error());
    co_return link;
}

StoreMeeting::Async<void> StoreMeeting::open_links(Milliseconds connect_timeout) {
    auto ops = co_await open_link(connect_timeout);
    if (!ops) co_return ops.error();
    ops_ = std::move(ops.value());
    auto watch = co_await open_link(connect_timeout);
    if (!watch) co_return watch.error();
    watch_ = std::move(watch.value());
    co_return success();
}

void StoreMeeting::close_links() {
    if (ops_) ops_->close();
    if (watch_) watch_->close();
}

StoreMeeting::Async<std::optional<StoreMeeting::HostIdentity>> StoreMeeting::read_host_identity() {
    const auto there = co_await ops_->check(host_key);
    if (!there) co_return as_error(there.error());
    if (!there.value()) co_return std::nullopt;
    const auto text = co_await ops_->get(host_key);
    if (!text) co_return as_error(text.error());
    const Json identity = parse_foreign_json<Json>(text.value(), message_bytes_max);
    HostIdentity found;
    found.run_id = text_field(identity, "run_id").value_or("");
    found.host = terminal_safe(text_field(identity, "host").value_or("?"));
    found.pid = small_integer(identity, "pid");
    found.nodes_min = small_integer(identity, "nodes_min");
    found.nodes_max = small_integer(identity, "nodes_max");
    const auto silent = integer_field(identity, "silent_after_ms").value_or(default_silent_ms);
    found.silent_after = Milliseconds(std::clamp(silent, silent_min_ms, silent_max_ms));
    host_identity_ = found;
    co_return host_identity_;
}

std::string StoreMeeting::news_text(const std::string& type, Json more) {
    more["type"] = type;
    more["from"] = own_description();
    more["serial"] = news_serial_++;
    return python_json(more);
}

boost::asio::awaitable<StoreFailure> StoreMeeting::follow_news(std::function<void(const Json&)> hear) {
    co_return co_await news_.follow(watch_, [hear = std::move(hear)](const std::string& text) {
        const Json entry = parse_foreign_json<Json>(text, news_bytes_max);
        if (entry.is_object()) hear(entry);
    });
}

boost::asio::awaitable<StoreResult<void>> StoreMeeting::publish(std::string type, Json more) {
    co_return co_await news_.publish(ops_, news_text(type, std::move(more)));
}

void StoreMeeting::tell(PeerNote note) {
    if (!opened_ || ended() || !links_up()) return;
    if (note.kind == "failed") failure_told_ = true;
    Json entry;
    entry["about"] = std::move(note.kind);
    entry["host"] = host_name_;
    entry["text"] = note.text.substr(0, failure_report_bytes_max);
    spawn([](StoreMeeting* self, Json told) -> boost::asio::awaitable<void> {
        static_cast<void>(co_await self->publish("note", std::move(told)));
    }(this, std::move(entry)));
}

std::optional<PeerNote> StoreMeeting::hear_note(const Json& entry) {
    PeerNote note;
    note.kind = text_field(entry, "about").value_or("");
    note.host = terminal_safe(text_field(entry, "host").value_or("?").substr(0, peer_name_bytes_max));
    note.text = text_field(entry, "text").value_or("").substr(0, failure_report_bytes_max);
    note.own = text_field(entry, "from").value_or("") == own_description();
    if (note.kind.empty()) return std::nullopt;
    if (note.kind == "failed") {
        if (note.own) failure_told_ = false;
        auto failed = decode_job_failure(note.text);
        if (!failed) return std::nullopt;
        if (!job_failures_.empty() && job_failures_.back().round < failed->round) job_failures_.clear();
        failed->host = note.host;
        failed->own = note.own;
        const bool of_this_round = job_failures_.empty() || job_failures_.back().round == failed->round;
        if (of_this_round && job_failures_.size() < job_failures_max) job_failures_.push_back(std::move(*failed));
        return note;
    }
    pass_on(note);
    return note;
}

boost::asio::awaitable<void> StoreMeeting::own_failure_heard() {
    const auto deadline = Clock::now() + own_failure_heard_max;
    while (failure_told_ && links_up() && Clock::now() < deadline) co_await pause(Milliseconds(1));
}

void StoreMeeting::leave_words(std::string text) {
    if (!opened_ || ended() || !links_up() || !host_is_cpprun()) return;
    spawn([](StoreMeeting* self, std::string words) -> boost::asio::awaitable<void> {
        const auto link = self->ops();
        static_cast<void>(co_await link->set(self->own_prefix() + "words/" + self->words_name(), std::move(words)));
    }(this, std::move(text)));
}

boost::asio::awaitable<void> StoreMeeting::show_words(std::string name, std::string host) {
    const auto link = ops();
    if (!link || !host_is_cpprun()) co_return;
    const std::string key = own_prefix() + "words/" + name;
    const auto there = co_await link->check(key);
    if (!there || !there.value() || ended()) co_return;
    const auto text = co_await link->get(key);
    if (!text || ended()) co_return;
    PeerNote note;
    note.kind = "words";
    note.host = terminal_safe(host);
    note.text = text.value();
    pass_on(note);
}

StoreMeeting::Async<std::vector<int>> StoreMeeting::wait_for_all(
    std::shared_ptr<StoreLink> link, std::vector<std::string> keys, Milliseconds timeout,
    std::function<std::string(const std::vector<int>&)> waiting_for) {
    const auto deadline = Clock::now() + timeout;
    Milliseconds slice = first_word;
    for (;;) {
        const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
        const auto waited = co_await link->wait(keys, std::clamp(left, Milliseconds(0), slice));
        if (waited) co_return std::vector<int>{};
        if (waited.error().kind != StoreFailure::Kind::timeout) co_return as_error(waited.error());
        std::vector<int> missing;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const auto there = co_await link->check(keys[i]);
            if (!there) co_return as_error(there.error());
            if (!there.value()) missing.push_back(static_cast<int>(i));
        }
        if (missing.empty()) co_return missing;
        if (Clock::now() >= deadline) co_return missing;
        if (ended()) co_return failure("the run has ended");
        const auto seconds = std::chrono::ceil<std::chrono::seconds>(deadline - Clock::now());
        log_waiting(fmt::format("{}; {} s left", waiting_for(missing), seconds.count()));
        slice = keys.size() > asked_one_by_one_max ? next_words : waiting_pace();
    }
}

StoreMeeting::Async<RankRange> StoreMeeting::exchange_ranks(
    std::shared_ptr<StoreLink> link, std::string prefix, int group_rank, int group_world_size, Milliseconds timeout,
    std::function<std::string(const std::vector<int>&)> waiting_for) {
    const int own_size = config_.nproc_per_node;
    if (config_.worker_identical) co_return assign_identical_ranks(group_rank, group_world_size, own_size);
    const auto role_key = [&](int rank) { return fmt::format("{}torchelastic/role_info/{}", prefix, rank); };
    const auto place_key = [&](int rank) { return fmt::format("{}torchelastic/assigned_ranks/{}", prefix, rank); };
    Json own;
    own["role"] = config_.role;
    own["rank"] = group_rank;
    own["local_world_size"] = own_size;
    const auto told = co_await link->set(role_key(group_rank), python_json(own));
    if (!told) co_return as_error(told.error());
    if (group_rank == 0) {
        std::vector<std::string> keys;
        for (int rank = 0; rank < group_world_size; ++rank) keys.push_back(role_key(rank));
        const auto missing = co_await wait_for_all(link, keys, timeout, waiting_for);
        if (!missing) co_return missing.error();
        if (!missing.value().empty())
            co_return failure(fmt::format("{}, and the time of {} s is over", waiting_for(missing.value()),
                                          std::chrono::duration_cast<std::chrono::seconds>(timeout).count()));
        const auto infos = co_await link->multi_get(keys);
        if (!infos) co_return as_error(infos.error());
        std::vector<AgentShare> shares;
        for (std::size_t rank = 0; rank < infos.value().size(); ++rank) {
            const Json info = parse_foreign_json<Json>(infos.value()[rank], message_bytes_max);
            AgentShare share{text_field(info, "role").value_or(""), small_integer(info, "local_world_size")};
            if (share.local_world_size < 1 || share.local_world_size > 1'000'000)
                co_return failure(fmt::format("node {} told no size of its worker group: '{}'", rank,
                                              terminal_safe(infos.value()[rank].substr(0, 200))));
            shares.push_back(std::move(share));
        }
        std::vector<std::string> place_keys;
        std::vector<std::string> places;
        const std::vector<RankRange> ranges = assign_ranks(shares);
        for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
            const RankRange& range = ranges[rank];
            place_keys.push_back(place_key(static_cast<int>(rank)));
            places.push_back(fmt::format("[{}, {}, {}, {}]", range.global_base, range.world_size, range.role_base,
                                         range.role_world_size));
        }
        const auto given = co_await link->multi_set(place_keys, places);
        if (!given) co_return as_error(given.error());
        co_return ranges.front();
    }
    const auto missing = co_await wait_for_all(
        link, std::vector<std::string>(1, place_key(group_rank)), timeout, [&](const std::vector<int>&) {
            return fmt::format("waiting for node 0, which gives out the ranks when all {} nodes are there",
                               group_world_size);
        });
    if (!missing) co_return missing.error();
    if (!missing.value().empty())
        co_return failure(fmt::format("node 0 has not given out ranks within {} s",
                                      std::chrono::duration_cast<std::chrono::seconds>(timeout).count()));
    const auto place = co_await link->get(place_key(group_rank));
    if (!place) co_return as_error(place.error());
    const Json list = parse_foreign_json<Json>(place.value(), message_bytes_max);
    const bool sound = list.is_array() && list.size() == 4 &&
                       std::all_of(list.begin(), list.end(), [](const Json& n) { return n.is_number_integer(); });
    if (!sound) co_return failure("node 0 gave out ranks that make no sense: '" + terminal_safe(place.value()) + "'");
    RankRange range;
    range.group_rank = group_rank;
    range.group_world_size = group_world_size;
    range.local_world_size = own_size;
    range.global_base = list[0].get<int>();
    range.world_size = list[1].get<int>();
    range.role_base = list[2].get<int>();
    range.role_world_size = list[3].get<int>();
    if (range.global_base < 0 || range.global_base + own_size > range.world_size)
        co_return failure("node 0 gave out ranks that make no sense: '" + terminal_safe(place.value()) + "'");
    co_return range;
}

StoreMeeting::Async<bool> StoreMeeting::pass_exit_barrier(
    std::shared_ptr<StoreLink> link, std::string prefix, std::string done_prefix, int group_rank, int group_world_size,
    bool serves, std::function<std::string(const std::vector<int>&)> waiting_for) {
    const std::string members = prefix + "torchelastic/agent/terminal_state/num_members";
    const std::string last = prefix + "torchelastic/agent/terminal_state/last_member";
    const auto noted = co_await link->set(done_prefix + std::to_string(group_rank), "1");
    if (!noted) co_return as_error(noted.error());
    const auto count = co_await link->add(members, 1);
    if (!count) co_return as_error(count.error());
    if (count.value() >= group_world_size) {
        const auto told = co_await link->set(last, "<val_ignored>");
        if (!told) co_return as_error(told.error());
        co_return true;
    }
    const Milliseconds timeout = rendezvous().exit_barrier_timeout;
    auto deadline = timeout == Milliseconds::max() ? Clock::time_point::max() : Clock::now() + timeout;
    Milliseconds slice = first_word;
    for (;;) {
        const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
        const auto waited = co_await link->wait(last, std::clamp(left, Milliseconds(0), slice));
        if (waited) co_return true;
        if (waited.error().kind != StoreFailure::Kind::timeout) co_return as_error(waited.error());
        if (Clock::now() >= deadline) {
            const auto level = timeout.count() > 0 ? LogLevel::warning : LogLevel::info;
            log(level,
                fmt::format("the other nodes have not ended within {} s after this one; it {}",
                            std::chrono::duration<double>(timeout).count(),
                            serves ? "stays, as they use its store" : "goes"),
                true);
            if (!serves) co_return false;
            deadline = Clock::time_point::max();
        }
        if (ended()) co_return failure("the run has ended");
        std::string text;
        if (group_world_size <= asked_one_by_one_max) {
            std::vector<int> missing;
            for (int rank = 0; rank < group_world_size; ++rank) {
                const auto there = co_await link->check(done_prefix + std::to_string(rank));
                if (!there) co_return as_error(there.error());
                if (!there.value()) missing.push_back(rank);
            }
            text = "this node has ended well; " + waiting_for(missing);
        } else {
            const auto here = co_await link->add(members, 0);
            if (!here) co_return as_error(here.error());
            text = fmt::format("this node has ended well; waiting for {} of {} nodes", group_world_size - here.value(),
                               group_world_size);
        }
        if (deadline != Clock::time_point::max()) {
            const auto seconds = std::chrono::ceil<std::chrono::seconds>(deadline - Clock::now());
            text += fmt::format("; {} s left", seconds.count());
        }
        log_waiting(text);
        slice = group_world_size > asked_one_by_one_max ? next_words : waiting_pace();
    }
}

boost::asio::awaitable<void> StoreMeeting::see_others_off(Milliseconds at_most) {
    if (!store_) co_return;
    const auto deadline = Clock::now() + at_most;
    const auto counts = [](const std::shared_ptr<StoreLink>& link) { return link && link->usable() ? 1U : 0U; };
    const std::size_t own = counts(ops_) + counts(watch_);
    while (store_->statistics().connections > own && Clock::now() < deadline) co_await pause(Milliseconds(5));
}

std::string StoreMeeting::failure_report_text(const RunResult& result) const {
    if (result.failures.empty()) return {};
    FailureReportInput input{config_.program.script, host_name_, result.failures};
    input.restarts_used = result.restarts_used;
    input.max_restarts = config_.max_restarts;
    input.job_failures = job_failures_;
    return failure_report(input, tell_failures(input)).substr(0, failure_report_bytes_max);
}

void StoreMeeting::hear_report(std::string_view text) {
    report_heard_ = terminal_safe(text.substr(0, failure_report_bytes_max));
}

RunEnded StoreMeeting::job_failed() const {
    return {failure("the job has failed: " + failure_heard_), report_heard_};
}

std::string StoreMeeting::failure_text(const RunResult& result) const {
    if (const JobFailure* first = first_of_job(job_failures_); first != nullptr && !first->own)
        return fmt::format("rank {} on {} failed ({})", first->rank, first->host, first->status);
    if (result.failures.empty()) return fmt::format("the workers of {} failed", host_name_);
    const WorkerFailure& root = result.failures[root_cause(result.failures)];
    return fmt::format("rank {} on {} failed (exitcode {})", root.global_rank, host_name_, root.status.python_code());
}

}  // namespace cpprun
