// SPDX-License-Identifier: BSD-3-Clause
// A c10d store for native programs: a client that meets Python workers in PyTorch's own store or in cpprun's, a server,
// and a view of a store under a prefix. Needs nothing but the standard library to be included.
//
// Failures are exceptions of type StoreError. Keys and values are bytes. Times are bounds on the steady clock; a zero
// does not wait, store_forever never gives up. Limits, as PyTorch's server has them: keys of 8191 bytes (prefixes
// included), values of 8 MiB, 131072 keys in one call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

inline constexpr std::chrono::milliseconds store_forever = std::chrono::milliseconds::max();

/// What every operation of this header throws when it does not succeed.
class StoreError : public std::runtime_error {
  public:
    enum class Kind {
        timeout,      ///< it did not come in time; after a wait the store stays usable
        connection,   ///< there is no connection, or it was lost: this object is of no more use
        protocol,     ///< the peer does not speak as a store does: likewise
        queue_empty,  ///< another client took the item first
        invalid,      ///< over a limit, or a setting that makes no sense: nothing was sent
    };
    StoreError(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
    Kind kind() const { return kind_; }

  private:
    Kind kind_;
};

/// What a store can do. Every function may be called from any thread; calls on one object wait for one another, so a
/// long wait is best made on a client of its own.
class Store {
  public:
    using Milliseconds = std::chrono::milliseconds;

    virtual ~Store() = default;

    /// Creates or replaces. There is no answer: that the store is gone shows at a later call.
    virtual void set(std::string_view key, std::string_view value) = 0;
    /// The value, once the key is there.
    virtual std::string get(std::string_view key, Milliseconds timeout) = 0;
    /// Adds to a counter and returns the sum; a missing key counts as 0. Counters are decimal text.
    virtual std::int64_t add(std::string_view key, std::int64_t difference) = 0;
    /// Sets `desired` if the value is `expected`, or if the key is missing and `expected` is empty. Returns the value
    /// after that; for a missing key and another expectation, the expectation.
    virtual std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) = 0;
    /// True if all keys are there now.
    virtual bool check(const std::vector<std::string>& keys) = 0;
    /// Returns once every key has been created.
    virtual void wait(const std::vector<std::string>& keys, Milliseconds timeout) = 0;
    /// True if there was such a key.
    virtual bool remove(std::string_view key) = 0;
    /// Of the whole store, whatever the prefix; counters of workers and barriers included.
    virtual std::int64_t number_of_keys() = 0;
    virtual void append(std::string_view key, std::string_view value) = 0;
    /// The values in the order of the keys, once all are there.
    virtual std::vector<std::string> multi_get(const std::vector<std::string>& keys, Milliseconds timeout) = 0;
    virtual void multi_set(const std::vector<std::string>& keys, const std::vector<std::string>& values) = 0;
    /// Queues are first in, first out, and apart from the key of the same name.
    virtual void queue_push(std::string_view key, std::string_view value) = 0;
    /// Waits for an item.
    virtual std::string queue_pop(std::string_view key, Milliseconds timeout) = 0;
    /// None: the queue is empty.
    virtual std::optional<std::string> try_queue_pop(std::string_view key) = 0;
    virtual std::int64_t queue_length(std::string_view key) = 0;
    virtual std::vector<std::string> list_keys() = 0;
    /// Returns once `size` clients have come here. A key serves for one barrier: its count is never reset.
    virtual void barrier(std::string_view key, std::int64_t size, Milliseconds timeout) = 0;
    /// What waits last when no time is given.
    virtual Milliseconds default_timeout() const = 0;

    std::string get(std::string_view key) { return get(key, default_timeout()); }
    void wait(const std::vector<std::string>& keys) { wait(keys, default_timeout()); }
    std::vector<std::string> multi_get(const std::vector<std::string>& keys) {
        return multi_get(keys, default_timeout());
    }
    std::string queue_pop(std::string_view key) { return queue_pop(key, default_timeout()); }
    void barrier(std::string_view key, std::int64_t size) { barrier(key, size, default_timeout()); }
};

/// How a TcpStore connects and waits.
struct TcpStoreOptions {
    std::string host = "127.0.0.1";  ///< a name or a numeric address
    std::uint16_t port = 29500;
    std::chrono::milliseconds timeout{300'000};          ///< of waits that name no other
    std::chrono::milliseconds connect_timeout{300'000};  ///< connecting, with all its tries
    std::chrono::milliseconds reply_timeout{60'000};     ///< each answer that the server owes at once
    std::function<void(const std::string&)> on_retry;    ///< hears of each failed try to connect; may be empty
};

/// A client of a store over TCP: cpprun's, or one hosted by PyTorch 2.4 or later.
class TcpStore final : public Store {
  public:
    /// Connects, trying again until the connect time-out.
    explicit TcpStore(TcpStoreOptions options);
    /// Connects to the store that the launcher names in MASTER_ADDR and MASTER_PORT. Throws StoreError of kind invalid
    /// where one is missing or makes no sense.
    static std::unique_ptr<TcpStore> from_environment();
    TcpStore(TcpStore&&) noexcept;
    TcpStore& operator=(TcpStore&&) noexcept;
    ~TcpStore() override;

    using Store::barrier;
    using Store::get;
    using Store::multi_get;
    using Store::queue_pop;
    using Store::wait;
    void set(std::string_view key, std::string_view value) override;
    std::string get(std::string_view key, Milliseconds timeout) override;
    std::int64_t add(std::string_view key, std::int64_t difference) override;
    std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
    bool check(const std::vector<std::string>& keys) override;
    void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
    bool remove(std::string_view key) override;
    std::int64_t number_of_keys() override;
    void append(std::string_view key, std::string_view value) override;
    std::vector<std::string> multi_get(const std::vector<std::string>& keys, Milliseconds timeout) override;
    void multi_set(const std::vector<std::string>& keys, const std::vector<std::string>& values) override;
    void queue_push(std::string_view key, std::string_view value) override;
    std::string queue_pop(std::string_view key, Milliseconds timeout) override;
    std::optional<std::string> try_queue_pop(std::string_view key) override;
    std::int64_t queue_length(std::string_view key) override;
    std::vector<std::string> list_keys() override;
    void barrier(std::string_view key, std::int64_t size, Milliseconds timeout) override;
    Milliseconds default_timeout() const override;

    /// Another connection to the same store, for waits that shall not hold up this one.
    std::unique_ptr<TcpStore> clone() const;
    /// Counts this client among the workers, as torch's clients with a world size do when they connect; a Python rank 0
    /// that hosts the store waits for that. Returns the count.
    std::int64_t announce_worker();
    /// The other side of it: waits until `count` workers have been counted.
    void wait_for_workers(std::int64_t count, Milliseconds timeout);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// A view of another store in which every key has "PREFIX/" in front, as torch's PrefixStore writes it on the wire.
class PrefixStore final : public Store {
  public:
    PrefixStore(std::string prefix, std::shared_ptr<Store> base);

    using Store::barrier;
    using Store::get;
    using Store::multi_get;
    using Store::queue_pop;
    using Store::wait;
    void set(std::string_view key, std::string_view value) override;
    std::string get(std::string_view key, Milliseconds timeout) override;
    std::int64_t add(std::string_view key, std::int64_t difference) override;
    std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
    bool check(const std::vector<std::string>& keys) override;
    void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
    bool remove(std::string_view key) override;
    std::int64_t number_of_keys() override;
    void append(std::string_view key, std::string_view value) override;
    std::vector<std::string> multi_get(const std::vector<std::string>& keys, Milliseconds timeout) override;
    void multi_set(const std::vector<std::string>& keys, const std::vector<std::string>& values) override;
    void queue_push(std::string_view key, std::string_view value) override;
    std::string queue_pop(std::string_view key, Milliseconds timeout) override;
    std::optional<std::string> try_queue_pop(std::string_view key) override;
    std::int64_t queue_length(std::string_view key) override;
    /// Keys under this prefix, without it.
    std::vector<std::string> list_keys() override;
    /// Counts under KEY/num_members and waits for KEY/last_member, as torch's PrefixStore does, so that both can meet.
    void barrier(std::string_view key, std::int64_t size, Milliseconds timeout) override;
    Milliseconds default_timeout() const override;

  private:
    std::string prefix_;
    std::shared_ptr<Store> base_;
};

/// Where a StoreServer listens, and what it allows.
struct StoreServerOptions {
    bool loopback_only = true;                    ///< else all addresses of the machine, IPv4 and IPv6
    std::uint16_t port = 0;                       ///< 0: any free one
    std::vector<std::string> bind_addresses;      ///< numeric; where there are any, exactly these
    std::vector<std::string> allow;               ///< ranges such as "10.0.0.0/8"; empty: everybody
    bool legacy = false;                          ///< serve clients of PyTorch 1.13 to 2.1 too
    int threads = 1;                              ///< threads that move bytes
    std::size_t connections_max = 0;              ///< 0: what the descriptor limit leaves
    std::size_t memory_bytes_max = 0;             ///< 0: half of the machine's memory
    std::function<void(const std::string&)> log;  ///< hears what an operator should, one line each; from other threads
};

/// A store in this process, on threads of its own. There is no authentication: see docs/security.md.
class StoreServer {
  public:
    /// Listens when it returns. Throws StoreError: kind invalid for an address or range that is none, else connection,
    /// e.g. for a port in use.
    explicit StoreServer(StoreServerOptions options = {});
    StoreServer(StoreServer&&) noexcept;
    StoreServer& operator=(StoreServer&&) noexcept;
    /// Closes every connection.
    ~StoreServer();

    std::uint16_t port() const;
    /// Closes every connection and forgets every key; goes on listening.
    void reset();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cpprun
