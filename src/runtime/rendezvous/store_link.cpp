// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rendezvous/store_link.hpp"

#include "core/store/backoff.hpp"
#include "core/store/wire_codec.hpp"
#include "runtime/rendezvous/as_result.hpp"
#include "runtime/rendezvous/name_lookup.hpp"
#include "runtime/store/stream_socket.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <netinet/tcp.h>
#include <random>
#include <unistd.h>

namespace cpprun {
namespace {

using boost::asio::awaitable;
using boost::asio::ip::tcp;
using boost::outcome_v2::success;
using Clock = std::chrono::steady_clock;
using Kind = StoreFailure::Kind;
using Op = StoreOperation;
using std::chrono::milliseconds;
using namespace boost::asio::experimental::awaitable_operators;

constexpr std::size_t reply_bytes_max = std::size_t{64} << 20U;
constexpr milliseconds first_pause{50};
constexpr milliseconds longest_pause{2'000};

std::vector<std::string_view> views(const std::vector<std::string>& texts) {
    return {texts.begin(), texts.end()};
}

std::string shown(const std::vector<std::string>& keys) {
    return keys.size() == 1 ? "the key '" + keys.front() + "'"
                            : fmt::format("{} keys, '{}' the first", keys.size(), keys.front());
}

std::string host_and_port(const std::string& host, std::uint16_t port) {
    const bool bare_v6 = host.find(':') != std::string::npos;
    return bare_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

// A dead machine answers nothing; the kernel finds out, so that even a link that only waits ends.
void watch_for_dead_peer(tcp::socket& socket) {
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(boost::asio::socket_base::keep_alive(true), ignored);
    const auto set = [&](int option, int value) {
        ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
    };
    set(TCP_KEEPIDLE, 3);
    set(TCP_KEEPINTVL, 2);
    set(TCP_KEEPCNT, 3);
}

}  // namespace

// A coroutine's frame must not hold what touches the link in a destructor: frames that are left when the io_context
// goes are destroyed after the link. So turns are ended by hand.
#define CPPRUN_TRY_ON_LINK(statement)       \
    if (auto tried = (statement); !tried) { \
        end_turn();                         \
        co_return tried.error();            \
    }

StoreLink::StoreLink(boost::asio::any_io_executor executor, StoreLinkSettings settings)
    : executor_(executor), settings_(std::move(settings)), socket_(executor) {}

StoreLink::~StoreLink() = default;

std::string StoreLink::peer() const {
    return host_and_port(settings_.host, settings_.port);
}

StoreFailure StoreLink::broken(Kind kind, std::string message) {
    if (broken_.empty()) broken_ = message;
    boost::system::error_code ignored;
    socket_.close(ignored);
    return {kind, fmt::format("the store at {}: {}", peer(), message)};
}

void StoreLink::close() {
    if (broken_.empty()) broken_ = "closed by this side";
    boost::system::error_code ignored;
    socket_.close(ignored);
}

std::string StoreLink::local_address() const {
    boost::system::error_code error;
    const auto local = socket_.local_endpoint(error);
    if (error) return {};
    auto address = local.address();
    if (address.is_v6() && address.to_v6().is_v4_mapped())
        address = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
    return address.to_string();
}

awaitable<StoreResult<void>> StoreLink::try_once(Clock::time_point deadline) {
    const auto endpoints = co_await look_up(executor_, settings_.host, settings_.port, deadline);
    if (!endpoints) co_return StoreFailure{Kind::connection, endpoints.error().message};
    std::string problem;
    auto left = static_cast<int>(endpoints.value().size());
    for (const tcp::endpoint& endpoint : endpoints.value()) {
        boost::system::error_code ignored;
        socket_.close(ignored);
        socket_ = tcp::socket(executor_);
        const auto now = Clock::now();
        boost::asio::steady_timer timer(executor_, left > 1 ? now + (deadline - now) / left : deadline);
        --left;
        const auto first = co_await (socket_.async_connect(endpoint, as_result) || timer.async_wait(as_result));
        const auto text = [&] { return host_and_port(endpoint.address().to_string(), endpoint.port()); };
        if (first.index() == 1) {
            problem += fmt::format("{}{}: no answer", problem.empty() ? "" : "; ", text());
            continue;
        }
        if (const auto error = std::get<0>(std::get<0>(first))) {
            problem += fmt::format("{}{}: {}", problem.empty() ? "" : "; ", text(), error.message());
            continue;
        }
        // A connect to a port of the dynamic range that nobody listens on can meet itself.
        if (socket_.local_endpoint(ignored) == socket_.remote_endpoint(ignored)) {
            problem += fmt::format("{}{}: Connection refused", problem.empty() ? "" : "; ", text());
            continue;
        }
        watch_for_dead_peer(socket_);
        const std::uint32_t nonce = greeting_nonce(static_cast<std::uint32_t>(::getpid()));
        const std::string greeting = store_greeting(nonce);
        co_await boost::asio::async_write(socket_, boost::asio::buffer(greeting), as_result);
        std::array<char, sizeof nonce> echo{};
        boost::asio::steady_timer patience(executor_, std::min(deadline, Clock::now() + settings_.reply_timeout));
        const auto greeted = co_await (boost::asio::async_read(socket_, boost::asio::buffer(echo), as_result) ||
                                       patience.async_wait(as_result));
        if (greeted.index() == 0 && !std::get<0>(std::get<0>(greeted)) && read_u32(echo.data()) == nonce)
            co_return success();
        problem += fmt::format(
            "{}{}: {}", problem.empty() ? "" : "; ", text(),
            greeted.index() == 1 ? "it takes connections and does not answer" : "what listens there is no store");
    }
    co_return StoreFailure{Kind::connection, problem.empty() ? "it has no address" : problem};
}

StoreLink::Async<void> StoreLink::connect() {
    const auto begin = Clock::now();
    const auto deadline = begin + settings_.connect_timeout;
    std::mt19937_64 random{std::random_device{}()};
    std::uniform_real_distribution<double> chance;
    Backoff backoff(first_pause, longest_pause);
    for (int tries = 1;; ++tries) {
        const auto tried = co_await try_once(deadline);
        if (!broken_.empty()) co_return broken(Kind::connection, broken_);
        if (tried) co_return success();
        const milliseconds pause = backoff.next(chance(random));
        if (Clock::now() + pause >= deadline) {
            const auto taken = std::chrono::duration<double>(Clock::now() - begin).count();
            co_return broken(Kind::timeout, fmt::format("{} ({} {}, {:.1f} s)", tried.error().message, tries,
                                                        tries == 1 ? "try" : "tries", taken));
        }
        if (settings_.on_retry) settings_.on_retry(tried.error().message, pause);
        boost::asio::steady_timer timer(executor_, pause);
        co_await timer.async_wait(as_result);
        if (!broken_.empty()) co_return broken(Kind::connection, broken_);
    }
}

awaitable<void> StoreLink::take_turn() {
    if (!busy_) {
        busy_ = true;
        co_return;
    }
    const auto turn = turns_.emplace(turns_.end(), executor_, Clock::time_point::max());
    co_await turn->async_wait(as_result);
    turns_.erase(turn);
}

void StoreLink::end_turn() {
    if (turns_.empty()) {
        busy_ = false;
    } else {
        turns_.front().cancel();
    }
}

StoreLink::Async<void> StoreLink::send(const StoreRequest& request) {
    if (!usable()) co_return broken(Kind::connection, broken_.empty() ? "not connected" : broken_);
    out_.clear();
    encode_request(request, out_);
    boost::asio::steady_timer timer(executor_, settings_.reply_timeout);
    const auto first = co_await (boost::asio::async_write(socket_, boost::asio::buffer(out_), as_result) ||
                                 timer.async_wait(as_result));
    if (first.index() == 1) co_return broken(Kind::connection, "it takes no bytes");
    if (const auto error = std::get<0>(std::get<0>(first)))
        co_return broken(Kind::connection, "the connection is lost: " + error.message());
    co_return success();
}

StoreLink::Async<void> StoreLink::read(char* into, std::size_t count, Clock::time_point deadline) {
    if (!usable()) co_return broken(Kind::connection, broken_.empty() ? "not connected" : broken_);
    boost::asio::steady_timer timer(executor_, deadline);
    const auto first = co_await (boost::asio::async_read(socket_, boost::asio::buffer(into, count), as_result) ||
                                 timer.async_wait(as_result));
    if (first.index() == 1) co_return broken(Kind::connection, "it does not answer");
    const auto error = std::get<0>(std::get<0>(first));
    if (error == boost::asio::error::eof) co_return broken(Kind::connection, "it has closed the connection");
    if (error) co_return broken(Kind::connection, "the connection is lost: " + error.message());
    co_return success();
}

StoreLink::Async<std::int64_t> StoreLink::read_number() {
    std::array<char, sizeof(std::int64_t)> bytes{};
    const auto done = co_await read(bytes.data(), bytes.size(), Clock::now() + settings_.reply_timeout);
    if (!done) co_return done.error();
    co_return static_cast<std::int64_t>(read_u64(bytes.data()));
}

StoreLink::Async<std::string> StoreLink::read_bytes() {
    const auto length = co_await read_number();
    if (!length) co_return length.error();
    const auto size = static_cast<std::uint64_t>(length.value());
    if (size > reply_bytes_max) co_return broken(Kind::protocol, "an answer of " + std::to_string(size) + " bytes");
    std::string bytes(size, '\0');
    const auto done = co_await read(bytes.data(), bytes.size(), Clock::now() + settings_.reply_timeout);
    if (!done) co_return done.error();
    co_return bytes;
}

StoreLink::Async<void> StoreLink::set(std::string key, std::string value) {
    const std::string name = wire_key(key);
    co_await take_turn();
    const auto sent = co_await send({.operation = Op::set, .key = name, .value = value});
    end_turn();
    co_return sent;
}

StoreLink::Async<void> StoreLink::append(std::string key, std::string value) {
    const std::string name = wire_key(key);
    co_await take_turn();
    const auto sent = co_await send({.operation = Op::append, .key = name, .value = value});
    end_turn();
    co_return sent;
}

StoreLink::Async<std::string> StoreLink::get(std::string key) {
    const std::string name = wire_key(key);
    co_await take_turn();
    CPPRUN_TRY_ON_LINK(co_await send({.operation = Op::get, .key = name}));
    auto value = co_await read_bytes();
    end_turn();
    co_return value;
}

StoreLink::Async<std::int64_t> StoreLink::add(std::string key, std::int64_t difference) {
    const std::string name = wire_key(key);
    co_await take_turn();
    CPPRUN_TRY_ON_LINK(co_await send({.operation = Op::add, .key = name, .number = difference}));
    const auto sum = co_await read_number();
    end_turn();
    co_return sum;
}

StoreLink::Async<std::int64_t> StoreLink::announce_worker() {
    co_await take_turn();
    CPPRUN_TRY_ON_LINK(co_await send({.operation = Op::add, .key = "init/", .number = 1}));
    const auto sum = co_await read_number();
    end_turn();
    co_return sum;
}

StoreLink::Async<std::string> StoreLink::compare_set(std::string key, std::string expected, std::string desired) {
    const std::string name = wire_key(key);
    co_await take_turn();
    CPPRUN_TRY_ON_LINK(
        co_await send({.operation = Op::compare_set, .key = name, .value = desired, .expected = expected}));
    auto value = co_await read_bytes();
    end_turn();
    co_return value;
}

StoreLink::Async<bool> StoreLink::check(std::vector<std::string> keys) {
    const auto names = wire_keys(keys);
    const auto wanted = views(names);
    co_await take_turn();
    CPPRUN_TRY_ON_LINK(co_await send({.operation = Op::check, .keys = wanted}));
    char reply = 0;
    CPPRUN_TRY_ON_LINK(co_await read(&reply, 1, Clock::now() + settings_.reply_timeout));
    end_turn();
    if (reply != store_reply::ready && reply != store_reply::not_ready)
        co_return broken(Kind::protocol, "a check was answered with nonsense");
    co_return reply == store_reply::ready;
}

StoreLink::Async<void> StoreLink::wait(std::vector<std::string> keys, Milliseconds timeout) {
    const auto names = wire_keys(keys);
    const auto wanted = views(names);
    co_await take_turn();
    CPPRUN_TRY_ON_LINK(co_await send({.operation = Op::wait, .keys = wanted}));
    boost::asio::steady_timer timer(executor_, deadline_after(timeout));
    const auto first = co_await (socket_.async_wait(tcp::socket::wait_read, as_result) || timer.async_wait(as_result));
    if (first.index() == 1) {
        CPPRUN_TRY_ON_LINK(co_await send({.operation = Op::cancel_wait}));
    }
    char reply = 0;
    CPPRUN_TRY_ON_LINK(co_await read(&reply, 1, Clock::now() + settings_.reply_timeout));
    const bool released = reply == store_reply::stop_waiting;
    // A release may have crossed our request to cancel: then it comes first, and the confirmation all the same.
    if (first.index() == 1 && released) {
        CPPRUN_TRY_ON_LINK(co_await read(&reply, 1, Clock::now() + settings_.reply_timeout));
    }
    end_turn();
    if (first.index() == 1 && reply != store_reply::wait_cancelled)
        co_return broken(Kind::protocol, "a cancelled wait was answered with nonsense");
    if (!released && first.index() == 0) co_return broken(Kind::protocol, "a wait was answered with nonsense");
    if (!released) co_return StoreFailure{Kind::timeout, fmt::format("{} did not come", shown(keys))};
    co_return success();
}

StoreLink::Async<bool> StoreLink::check(std::string key) {
    std::vector<std::string> keys(1, key);
    co_return co_await check(std::move(keys));
}

StoreLink::Async<void> StoreLink::wait(std::string key, Milliseconds timeout) {
    std::vector<std::string> keys(1, key);
    co_return co_await wait(std::move(keys), timeout);
}

StoreLink::Async<std::vector<std::string>> StoreLink::multi_get(std::vector<std::string> keys) {
    const auto names = wire_keys(keys);
    const auto wanted = views(names);
    co_await take_turn();
    CPPRUN_TRY_ON_LINK(co_await send({.operation = Op::multi_get, .keys = wanted}));
    std::vector<std::string> values;
    values.reserve(keys.size());
    while (values.size() < keys.size()) {
        auto value = co_await read_bytes();
        CPPRUN_TRY_ON_LINK(value);
        values.push_back(std::move(value).value());
    }
    end_turn();
    co_return values;
}

StoreLink::Async<void> StoreLink::multi_set(std::vector<std::string> keys, std::vector<std::string> values) {
    const auto names = wire_keys(keys);
    const auto wanted = views(names);
    const auto given = views(values);
    co_await take_turn();
    const auto sent = co_await send({.operation = Op::multi_set, .keys = wanted, .values = given});
    end_turn();
    co_return sent;
}

StoreLink::Async<bool> StoreLink::remove(std::string key) {
    const std::string name = wire_key(key);
    co_await take_turn();
    CPPRUN_TRY_ON_LINK(co_await send({.operation = Op::remove, .key = name}));
    const auto count = co_await read_number();
    end_turn();
    if (!count) co_return count.error();
    co_return count.value() == 1;
}

}  // namespace cpprun
