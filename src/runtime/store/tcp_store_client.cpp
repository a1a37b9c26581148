// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/store/tcp_store_client.hpp"

#include "core/store/backoff.hpp"
#include "core/store/wire_codec.hpp"

#include <algorithm>
#include <random>
#include <thread>
#include <unistd.h>

namespace cpprun {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = StoreFailure::Kind;
using Op = StoreOperation;
using boost::outcome_v2::success;

constexpr std::string_view workers_key = "init/";

std::vector<std::string_view> views(std::span<const std::string> texts) {
    return {texts.begin(), texts.end()};
}

std::string quoted(std::span<const std::string> keys) {
    constexpr std::size_t shown = 5;
    std::string text;
    for (std::size_t i = 0; i < std::min(keys.size(), shown); ++i) text += (i == 0 ? "'" : ", '") + keys[i] + "'";
    if (keys.size() > shown) text += " and " + std::to_string(keys.size() - shown) + " more";
    return text;
}

std::string in_milliseconds(std::chrono::milliseconds time) {
    return std::to_string(time.count()) + " ms";
}

StoreResult<void> within_limits(const StoreRequest& request) {
    const StoreLimits limits;
    const auto too_long = [](const std::string& what, std::size_t size, std::size_t limit) {
        return StoreFailure{Kind::invalid,
                            what + " of " + std::to_string(size) + " bytes, the limit is " + std::to_string(limit)};
    };
    if (request.keys.size() > limits.keys_per_request) {
        return StoreFailure{Kind::invalid, std::to_string(request.keys.size()) + " keys in one request, the limit is " +
                                               std::to_string(limits.keys_per_request)};
    }
    std::size_t key = request.key.size();
    for (const auto text : request.keys) key = std::max(key, text.size());
    if (key > limits.key_bytes) return too_long("a key", key, limits.key_bytes);
    std::size_t value = std::max(request.value.size(), request.expected.size());
    for (const auto text : request.values) value = std::max(value, text.size());
    if (value > limits.value_bytes) return too_long("a value", value, limits.value_bytes);
    return success();
}

ConnectResult<void> shake_hands(StreamSocket& socket, SteadyTime deadline) {
    const std::uint32_t nonce = greeting_nonce(static_cast<std::uint32_t>(getpid()));
    const std::string greeting = store_greeting(nonce);
    if (const auto sent = socket.send(greeting, deadline); !sent) return ConnectFailure{sent.error().message};
    const auto echo = socket.receive(sizeof nonce, deadline);
    if (!echo) return ConnectFailure{"no handshake: " + echo.error().message};
    if (read_u32(echo.value().data()) != nonce) return ConnectFailure{"what listens there is no store"};
    return success();
}

ConnectResult<StreamSocket> try_once(const StoreClientSettings& settings, SteadyTime deadline) {
    BOOST_OUTCOME_TRY(const auto addresses, resolve(settings.host, settings.port, deadline));
    BOOST_OUTCOME_TRY(auto socket, StreamSocket::connect(addresses, deadline));
    BOOST_OUTCOME_TRY(shake_hands(socket, deadline));
    return socket;
}

std::string peer_text(const StoreClientSettings& settings) {
    return settings.host + ":" + std::to_string(settings.port);
}

}  // namespace

TcpStoreClient::TcpStoreClient(StoreClientSettings settings, StreamSocket socket)
    : settings_(std::move(settings)), socket_(std::move(socket)) {}

StoreResult<std::unique_ptr<TcpStoreClient>> TcpStoreClient::connect(StoreClientSettings settings) {
    const auto begin = Clock::now();
    const SteadyTime deadline = deadline_after(settings.connect_timeout);
    std::mt19937_64 random{std::random_device{}()};
    std::uniform_real_distribution<double> chance;
    Backoff backoff;
    for (int tries = 1;; ++tries) {
        auto connected = try_once(settings, deadline);
        if (connected) {
            return std::unique_ptr<TcpStoreClient>(
                new TcpStoreClient(std::move(settings), std::move(connected).value()));
        }
        const ConnectFailure failure = connected.error();
        const auto wait = backoff.next(chance(random));
        // A wait past the deadline would only make the failure late.
        if (failure.final || Clock::now() + wait >= deadline) {
            const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
            return StoreFailure{failure.final ? Kind::connection : Kind::timeout,
                                "no store at " + peer_text(settings) + ": " + failure.message + " (" +
                                    std::to_string(tries) + (tries == 1 ? " try" : " tries") + ", " +
                                    in_milliseconds(taken) + ")"};
        }
        if (settings.on_retry) {
            settings.on_retry("no store at " + peer_text(settings) + " yet: " + failure.message + "; next try in " +
                              in_milliseconds(wait));
        }
        std::this_thread::sleep_for(wait);
    }
}

SteadyTime TcpStoreClient::reply_deadline() const {
    return deadline_after(settings_.reply_timeout);
}

StoreResult<void> TcpStoreClient::usable() const {
    if (broken_.empty()) return success();
    return StoreFailure{Kind::connection, "the store at " + peer_text(settings_) + " was lost before: " + broken_};
}

// From here on the stream cannot be trusted to be in step.
StoreFailure TcpStoreClient::broken(StoreFailure failure) {
    broken_ = failure.message;
    failure.message = "the store at " + peer_text(settings_) + ": " + failure.message;
    return failure;
}

template <class T>
StoreResult<T> TcpStoreClient::checked(StoreResult<T> result) {
    if (result) return result;
    return broken(result.error());
}

StoreResult<void> TcpStoreClient::send(const StoreRequest& request) {
    BOOST_OUTCOME_TRY(usable());
    BOOST_OUTCOME_TRY(within_limits(request));
    std::string bytes;
    encode_request(request, bytes);
    return checked(socket_.send(bytes, reply_deadline()));
}

StoreResult<char> TcpStoreClient::read_byte(SteadyTime deadline) {
    BOOST_OUTCOME_TRY(const auto bytes, checked(socket_.receive(1, deadline)));
    return bytes.front();
}

StoreResult<std::int64_t> TcpStoreClient::read_number(SteadyTime deadline) {
    BOOST_OUTCOME_TRY(const auto bytes, checked(socket_.receive(sizeof(std::int64_t), deadline)));
    return static_cast<std::int64_t>(read_u64(bytes.data()));
}

// `left` is what the whole answer may still take.
StoreResult<std::string> TcpStoreClient::read_bytes(SteadyTime deadline, std::size_t& left) {
    BOOST_OUTCOME_TRY(const auto number, read_number(deadline));
    const auto length = static_cast<std::uint64_t>(number);
    if (length > left) return broken({Kind::protocol, "an answer of " + std::to_string(length) + " bytes or more"});
    left -= length;
    return checked(socket_.receive(length, deadline));
}

StoreResult<std::string> TcpStoreClient::ask_bytes(const StoreRequest& request) {
    BOOST_OUTCOME_TRY(send(request));
    std::size_t left = settings_.reply_bytes_max;
    return read_bytes(reply_deadline(), left);
}

StoreResult<std::int64_t> TcpStoreClient::ask_number(const StoreRequest& request) {
    BOOST_OUTCOME_TRY(send(request));
    return read_number(reply_deadline());
}

StoreResult<void> TcpStoreClient::await_release(Milliseconds timeout, const std::string& what) {
    if (!socket_.readable(deadline_after(timeout))) return call_off(timeout, what);
    BOOST_OUTCOME_TRY(const char reply, read_byte(reply_deadline()));
    if (reply != store_reply::stop_waiting) return broken({Kind::protocol, "a wait was answered with nonsense"});
    return success();
}

// A release may have crossed our request to cancel: then it comes first, and the confirmation all the same.
StoreResult<void> TcpStoreClient::call_off(Milliseconds timeout, const std::string& what) {
    BOOST_OUTCOME_TRY(send({.operation = Op::cancel_wait}));
    const SteadyTime deadline = reply_deadline();
    BOOST_OUTCOME_TRY(char reply, read_byte(deadline));
    const bool released = reply == store_reply::stop_waiting;
    if (released) {
        BOOST_OUTCOME_TRY(reply, read_byte(deadline));
    }
    if (reply != store_reply::wait_cancelled)
        return broken({Kind::protocol, "a cancelled wait was answered with nonsense"});
    if (released) return success();
    return StoreFailure{Kind::timeout, what + " did not come within " + in_milliseconds(timeout)};
}

StoreResult<void> TcpStoreClient::wait_wire(std::span<const std::string_view> keys, Milliseconds timeout,
                                            const std::string& what) {
    BOOST_OUTCOME_TRY(send({.operation = Op::wait, .keys = keys}));
    return await_release(timeout, what);
}

StoreResult<void> TcpStoreClient::set(std::string_view key, std::string_view value) {
    const std::scoped_lock lock(mutex_);
    const std::string name = wire_key(key);
    return send({.operation = Op::set, .key = name, .value = value});
}

StoreResult<std::string> TcpStoreClient::get(std::string_view key, Milliseconds timeout) {
    const std::scoped_lock lock(mutex_);
    const std::string name = wire_key(key);
    const std::string_view view = name;
    BOOST_OUTCOME_TRY(wait_wire({&view, 1}, timeout, "the key '" + std::string(key) + "'"));
    return ask_bytes({.operation = Op::get, .key = name});
}

StoreResult<std::int64_t> TcpStoreClient::add(std::string_view key, std::int64_t difference) {
    const std::scoped_lock lock(mutex_);
    const std::string name = wire_key(key);
    return ask_number({.operation = Op::add, .key = name, .number = difference});
}

StoreResult<std::string> TcpStoreClient::compare_set(std::string_view key, std::string_view expected,
                                                     std::string_view desired) {
    const std::scoped_lock lock(mutex_);
    const std::string name = wire_key(key);
    return ask_bytes({.operation = Op::compare_set, .key = name, .value = desired, .expected = expected});
}

StoreResult<bool> TcpStoreClient::check(std::span<const std::string> keys) {
    const std::scoped_lock lock(mutex_);
    const auto names = wire_keys(keys);
    const auto wanted = views(names);
    BOOST_OUTCOME_TRY(send({.operation = Op::check, .keys = wanted}));
    BOOST_OUTCOME_TRY(const char reply, read_byte(reply_deadline()));
    if (reply != store_reply::ready && reply != store_reply::not_ready) {
        return broken({Kind::protocol, "a check was answered with nonsense"});
    }
    return reply == store_reply::ready;
}

StoreResult<void> TcpStoreClient::wait(std::span<const std::string> keys, Milliseconds timeout) {
    const std::scoped_lock lock(mutex_);
    const auto names = wire_keys(keys);
    const auto wanted = views(names);
    return wait_wire(wanted, timeout, (keys.size() == 1 ? "the key " : "the keys ") + quoted(keys));
}

StoreResult<bool> TcpStoreClient::remove(std::string_view key) {
    const std::scoped_lock lock(mutex_);
    const std::string name = wire_key(key);
    BOOST_OUTCOME_TRY(const auto count, ask_number({.operation = Op::remove, .key = name}));
    return count == 1;
}

StoreResult<std::int64_t> TcpStoreClient::number_of_keys() {
    const std::scoped_lock lock(mutex_);
    return ask_number({.operation = Op::number_of_keys});
}

StoreResult<void> TcpStoreClient::append(std::string_view key, std::string_view value) {
    const std::scoped_lock lock(mutex_);
    const std::string name = wire_key(key);
    return send({.operation = Op::append, .key = name, .value = value});
}

StoreResult<std::vector<std::string>> TcpStoreClient::multi_get(std::span<const std::string> keys,
                                                                Milliseconds timeout) {
    const std::scoped_lock lock(mutex_);
    const auto names = wire_keys(keys);
    const auto wanted = views(names);
    BOOST_OUTCOME_TRY(wait_wire(wanted, timeout, "the keys " + quoted(keys)));
    BOOST_OUTCOME_TRY(send({.operation = Op::multi_get, .keys = wanted}));
    std::vector<std::string> values;
    std::size_t left = settings_.reply_bytes_max;
    const SteadyTime deadline = reply_deadline();
    for (std::size_t i = 0; i < keys.size(); ++i) {
        BOOST_OUTCOME_TRY(auto value, read_bytes(deadline, left));
        values.push_back(std::move(value));
    }
    return values;
}

StoreResult<void> TcpStoreClient::multi_set(std::span<const std::string> keys, std::span<const std::string> values) {
    if (keys.size() != values.size()) {
        return StoreFailure{Kind::invalid,
                            std::to_string(keys.size()) + " keys and " + std::to_string(values.size()) + " values"};
    }
    const std::scoped_lock lock(mutex_);
    const auto names = wire_keys(keys);
    const auto wanted = views(names);
    const auto given = views(values);
    return send({.operation = Op::multi_set, .keys = wanted, .values = given});
}

StoreResult<void> TcpStoreClient::queue_push(std::string_view key, std::string_view value) {
    const std::scoped_lock lock(mutex_);
    const std::string name = wire_key(key);
    return send({.operation = Op::queue_push, .key = name, .value = value});
}

StoreResult<std::optional<std::string>> TcpStoreClient::pop_wire(const std::string& wire_key) {
    BOOST_OUTCOME_TRY(const auto length, ask_number({.operation = Op::queue_pop, .key = wire_key}));
    if (length <= 0) return std::optional<std::string>();
    std::size_t left = settings_.reply_bytes_max;
    BOOST_OUTCOME_TRY(auto value, read_bytes(reply_deadline(), left));
    return std::optional(std::move(value));
}

StoreResult<std::optional<std::string>> TcpStoreClient::try_queue_pop(std::string_view key) {
    const std::scoped_lock lock(mutex_);
    return pop_wire(wire_key(key));
}

StoreResult<std::string> TcpStoreClient::queue_pop(std::string_view key, Milliseconds timeout) {
    const std::scoped_lock lock(mutex_);
    const std::string name = wire_key(key);
    const std::string_view view = name;
    const std::string what = "an item of the queue '" + std::string(key) + "'";
    BOOST_OUTCOME_TRY(wait_wire({&view, 1}, timeout, what));
    BOOST_OUTCOME_TRY(auto item, pop_wire(name));
    if (!item) return StoreFailure{Kind::queue_empty, "the queue '" + std::string(key) + "' is empty"};
    return std::move(*item);
}

StoreResult<std::int64_t> TcpStoreClient::queue_length(std::string_view key) {
    const std::scoped_lock lock(mutex_);
    const std::string name = wire_key(key);
    return ask_number({.operation = Op::queue_length, .key = name});
}

StoreResult<std::vector<std::string>> TcpStoreClient::list_keys() {
    const std::scoped_lock lock(mutex_);
    BOOST_OUTCOME_TRY(auto count, ask_number({.operation = Op::list_keys}));
    std::size_t left = settings_.reply_bytes_max;
    const SteadyTime deadline = reply_deadline();
    std::vector<std::string> keys;
    for (; count > 0; --count) {
        BOOST_OUTCOME_TRY(auto key, read_bytes(deadline, left));
        if (left < sizeof(std::uint64_t)) return broken({Kind::protocol, "a list of keys without end"});
        left -= sizeof(std::uint64_t);
        if (key.starts_with('/')) keys.push_back(key.substr(1));
    }
    return keys;
}

StoreResult<void> TcpStoreClient::barrier(std::string_view key, std::int64_t size, Milliseconds timeout) {
    const std::scoped_lock lock(mutex_);
    const std::string name = wire_key(key);
    BOOST_OUTCOME_TRY(send({.operation = Op::barrier, .key = name, .number = size}));
    return await_release(timeout, "all " + std::to_string(size) + " at the barrier '" + std::string(key) + "'");
}

StoreResult<std::int64_t> TcpStoreClient::announce_worker() {
    const std::scoped_lock lock(mutex_);
    return ask_number({.operation = Op::add, .key = workers_key, .number = 1});
}

StoreResult<void> TcpStoreClient::wait_for_workers(std::int64_t count, Milliseconds timeout) {
    constexpr std::chrono::milliseconds pause{10};
    const SteadyTime deadline = deadline_after(timeout);
    for (;;) {
        StoreResult<std::int64_t> counted = [&]() -> StoreResult<std::int64_t> {
            const std::scoped_lock lock(mutex_);
            return ask_number({.operation = Op::add, .key = workers_key, .number = 0});
        }();
        if (!counted) return counted.error();
        if (counted.value() >= count) return success();
        if (Clock::now() + pause >= deadline) {
            return StoreFailure{Kind::timeout, std::to_string(counted.value()) + " of " + std::to_string(count) +
                                                   " workers came within " + in_milliseconds(timeout)};
        }
        std::this_thread::sleep_for(pause);
    }
}

}  // namespace cpprun
