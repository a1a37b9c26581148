// SPDX-License-Identifier: BSD-3-Clause
// A client of a c10d store, ours or PyTorch's of either kind. One connection, one request at a time.
#pragma once

#include "core/store/messages.hpp"
#include "runtime/store/store_failure.hpp"
#include "runtime/store/stream_socket.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

struct StoreClientSettings {
    std::string host = "127.0.0.1";
    std::uint16_t port = 29500;
    /// Bounds connecting with the handshake, all tries together.
    std::chrono::milliseconds connect_timeout{300'000};
    /// Bounds each answer that the server owes at once, the end of a cancelled wait included.
    std::chrono::milliseconds reply_timeout{60'000};
    /// The most that one answer may take, so that a broken server cannot make us allocate without end.
    std::size_t reply_bytes_max = std::size_t{1} << 30U;
    /// Hears of each failed try to connect. May be empty.
    std::function<void(const std::string&)> on_retry = {};
};

/// All calls may come from any thread; they wait for one another. After a failure of kind connection or protocol, or a
/// time-out of a reply, every later call fails at once. Keys are as users write them; the leading '/' of the wire is
/// added here.
class TcpStoreClient {
  public:
    using Milliseconds = std::chrono::milliseconds;

    /// Connects and shakes hands, both again and again as one unit, with waits that grow and vary, until the connect
    /// time-out. A name in `host` is looked up anew at each try.
    static StoreResult<std::unique_ptr<TcpStoreClient>> connect(StoreClientSettings settings);

    StoreResult<void> set(std::string_view key, std::string_view value);
    /// Waits until the key is there.
    StoreResult<std::string> get(std::string_view key, Milliseconds timeout);
    StoreResult<std::int64_t> add(std::string_view key, std::int64_t difference);
    StoreResult<std::string> compare_set(std::string_view key, std::string_view expected, std::string_view desired);
    StoreResult<bool> check(std::span<const std::string> keys);
    /// Until all keys were created. On a time-out the wait is called off at the server and the connection stays usable;
    /// if the keys came just then, that is a success.
    StoreResult<void> wait(std::span<const std::string> keys, Milliseconds timeout);
    StoreResult<bool> remove(std::string_view key);
    StoreResult<std::int64_t> number_of_keys();
    StoreResult<void> append(std::string_view key, std::string_view value);
    /// Waits until all keys are there.
    StoreResult<std::vector<std::string>> multi_get(std::span<const std::string> keys, Milliseconds timeout);
    StoreResult<void> multi_set(std::span<const std::string> keys, std::span<const std::string> values);
    StoreResult<void> queue_push(std::string_view key, std::string_view value);
    /// None: the queue is empty.
    StoreResult<std::optional<std::string>> try_queue_pop(std::string_view key);
    /// Waits for an item; failure of kind queue_empty if another client was faster.
    StoreResult<std::string> queue_pop(std::string_view key, Milliseconds timeout);
    StoreResult<std::int64_t> queue_length(std::string_view key);
    StoreResult<std::vector<std::string>> list_keys();
    StoreResult<void> barrier(std::string_view key, std::int64_t size, Milliseconds timeout);

    /// Counts this client as one of the world, as torch's clients with a world size do on connecting; returns the
    /// count.
    StoreResult<std::int64_t> announce_worker();
    /// Waits until `count` workers have been counted.
    StoreResult<void> wait_for_workers(std::int64_t count, Milliseconds timeout);

    const StoreClientSettings& settings() const { return settings_; }

  private:
    TcpStoreClient(StoreClientSettings settings, StreamSocket socket);

    StoreResult<void> send(const StoreRequest& request);
    StoreResult<void> wait_wire(std::span<const std::string_view> keys, Milliseconds timeout, const std::string& what);
    StoreResult<void> await_release(Milliseconds timeout, const std::string& what);
    StoreResult<void> call_off(Milliseconds timeout, const std::string& what);
    StoreResult<std::int64_t> ask_number(const StoreRequest& request);
    StoreResult<std::int64_t> read_number(SteadyTime deadline);
    StoreResult<char> read_byte(SteadyTime deadline);
    StoreResult<std::string> read_bytes(SteadyTime deadline, std::size_t& left);
    StoreResult<std::string> ask_bytes(const StoreRequest& request);
    StoreResult<std::optional<std::string>> pop_wire(const std::string& wire_key);
    template <class T>
    StoreResult<T> checked(StoreResult<T> result);
    StoreFailure broken(StoreFailure failure);
    StoreResult<void> usable() const;
    SteadyTime reply_deadline() const;

    StoreClientSettings settings_;
    std::mutex mutex_;
    StreamSocket socket_;
    std::string broken_;
};

}  // namespace cpprun
