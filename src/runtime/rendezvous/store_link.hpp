// SPDX-License-Identifier: BSD-3-Clause
// An agent's connection to a store, ours or PyTorch's, for coroutines on one io_context. Every reply has a deadline,
// the one to a cancelled wait included, so that a frozen host never freezes its peers. Long waits belong on a link of
// their own: one request is under way at a time.
#pragma once

#include "core/error.hpp"
#include "core/store/messages.hpp"
#include "runtime/store/store_failure.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

inline Error as_error(const StoreFailure& failed) {
    return failure(failed.message);
}

struct StoreLinkSettings {
    std::string host;
    std::uint16_t port = 0;
    std::chrono::milliseconds connect_timeout{60'000};  ///< name, connection and handshake, all tries together
    std::chrono::milliseconds reply_timeout{10'000};    ///< of each answer that the server owes at once
    /// Hears of each failed try: what happened, and when the next one comes. May be empty.
    std::function<void(const std::string& problem, std::chrono::milliseconds next_try)> on_retry = {};
};

/// Used from the thread that runs the executor. After a failure of kind connection or protocol, or a reply that did not
/// come, the link is broken and every later call fails at once. Keys are as users write them: the wire's leading '/' is
/// added here.
class StoreLink {
  public:
    using Milliseconds = std::chrono::milliseconds;
    template <class T>
    using Async = boost::asio::awaitable<StoreResult<T>>;

    explicit StoreLink(boost::asio::any_io_executor executor, StoreLinkSettings settings);
    StoreLink(const StoreLink&) = delete;
    StoreLink& operator=(const StoreLink&) = delete;
    ~StoreLink();

    /// Once, before anything else. A name that does not resolve yet is tried again like everything else.
    Async<void> connect();
    /// The address of our end, as text without port; empty before connect().
    std::string local_address() const;

    Async<void> set(std::string key, std::string value);
    /// The value of a key that is known to be there: PyTorch's server waits for a missing one without a bound of ours.
    Async<std::string> get(std::string key);
    Async<std::int64_t> add(std::string key, std::int64_t difference);
    Async<std::string> compare_set(std::string key, std::string expected, std::string desired);
    Async<bool> check(std::vector<std::string> keys);
    Async<bool> check(std::string key);
    /// Until all keys are there. A time-out is a failure of kind timeout and leaves the link usable.
    Async<void> wait(std::vector<std::string> keys, Milliseconds timeout);
    Async<void> wait(std::string key, Milliseconds timeout);
    Async<std::vector<std::string>> multi_get(std::vector<std::string> keys);
    Async<void> multi_set(std::vector<std::string> keys, std::vector<std::string> values);
    Async<void> append(std::string key, std::string value);
    Async<bool> remove(std::string key);
    /// Counts this agent as one of the world, as torch's clients with a world size do; returns the count.
    Async<std::int64_t> announce_worker();

    /// Every operation that is under way, and every later one, fails.
    void close();
    bool usable() const { return broken_.empty() && socket_.is_open(); }
    const StoreLinkSettings& settings() const { return settings_; }

  private:
    class Turn;

    boost::asio::awaitable<StoreResult<void>> try_once(std::chrono::steady_clock::time_point deadline);
    boost::asio::awaitable<void> take_turn();
    void end_turn();
    Async<void> send(const StoreRequest& request);
    Async<void> read(char* into, std::size_t count, std::chrono::steady_clock::time_point deadline);
    Async<std::string> read_bytes();
    Async<std::int64_t> read_number();
    StoreFailure broken(StoreFailure::Kind kind, std::string message);
    std::string peer() const;

    boost::asio::any_io_executor executor_;
    StoreLinkSettings settings_;
    boost::asio::ip::tcp::socket socket_;
    std::string broken_;
    std::string out_;
    bool busy_ = false;
    std::list<boost::asio::steady_timer> turns_;
};

}  // namespace cpprun
