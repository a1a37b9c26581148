// SPDX-License-Identifier: BSD-3-Clause
// A store in this process: its listening sockets, its threads, its data. Any PyTorch from 2.2 on can be its client.
#pragma once

#include "core/error.hpp"
#include "core/store/store_rules.hpp"
#include "runtime/store/listener.hpp"
#include "runtime/store/store_log.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cpprun {

/// Keys, as they are on the wire, and their values.
using StorePairs = std::vector<std::pair<std::string, std::string>>;

/// Where and how a store listens. The defaults are those of a job on one node.
struct ListenSpec {
    using Scope = ListenScope;

    Scope scope = Scope::loopback;
    PortRange port;                           ///< 0: any port that is free in every family
    std::vector<std::string> bind_addresses;  ///< numeric; where there are any, exactly these and not the scope's
    std::vector<std::string> allow_cidrs;     ///< where there are any, only peers inside these, and this machine itself
    bool legacy = false;                      ///< serve clients of PyTorch 1.13 to 2.1 too, which have no handshake
    int threads = 1;                          ///< threads that move bytes
    std::size_t connections_max = 0;          ///< 0: what the descriptor limit leaves when the store starts
    std::size_t memory_bytes_max = 0;         ///< all that the store holds; 0: half of the machine's memory
    std::size_t request_bytes_max = std::size_t{1} << 30U;  ///< one request, keys and values together
    std::chrono::milliseconds handshake_timeout{120'000};   ///< for a new connection's first five bytes
    StorePairs initial_values;  ///< keys as on the wire, with their values: there before anybody can connect
    /// Prefixes of keys as on the wire. Who asks to write such a key (set, add, compare_set, append, multi_set) is an
    /// agent from then on. This says whose connections a reset can keep; it is no proof of who somebody is.
    std::vector<std::string> agent_prefixes;
    /// Hears of every write of a client to a key with one of these prefixes, and of the end of each connection that
    /// ever made one or is an agent's; connections are numbered from 1 and no number comes twice. Called on the store's
    /// threads, in order, with the store locked: it copies what it needs, never calls the store, and bounds what it
    /// keeps, as a peer may write without end. Not told of: this process's own writes, appends, deletes, forgotten
    /// keys.
    StoreObserver observer;
    std::vector<std::string> observed_prefixes;
    /// A connection that made such a write ends when its peer's machine has answered nothing for so long, be it that it
    /// is dead, stands still or is cut off; 0: after the two and a half minutes of every connection. The kernel asks,
    /// so a stopped process on a living machine is none of these.
    std::chrono::milliseconds observed_silence{0};
    /// A key with one of these prefixes vanishes when the connection ends that wrote it last, before the observer hears
    /// of that end. Written by this process, it stays.
    std::vector<std::string> ephemeral_prefixes;
};

/// What a new attempt of the worker group leaves in place.
struct KeepOnReset {
    std::vector<std::string> key_prefixes;  ///< of keys, counters, barriers and queues, as on the wire
};

/// A look at a running store, for tests and reports.
struct StoreStatistics {
    std::size_t connections = 0;
    std::size_t keys = 0;
    std::size_t awaited_keys = 0;  ///< keys that somebody waits for
    std::size_t memory_bytes = 0;  ///< by the store's own count
    std::uint64_t requests = 0;    ///< that clients have made, since the store began
};

class StoreHost {
  public:
    /// Binds, listens and serves; clients may connect once this has returned. Threads are its own, with all signals
    /// blocked. `log` may be empty. Errors: a malformed address or range (usage); an address in use, with the process
    /// that has it where /proc shows it; no descriptors.
    static Result<std::unique_ptr<StoreHost>> start(const ListenSpec& spec, StoreLog log);
    StoreHost(const StoreHost&) = delete;
    StoreHost& operator=(const StoreHost&) = delete;
    /// Closes every connection, so that who waits hears of it, and joins the threads.
    ~StoreHost();

    std::uint16_t port() const;

    /// For a new attempt of the worker group: closes every connection, also those not accepted yet, and forgets every
    /// key; returns when that is done. Listening goes on throughout, on the same port.
    void reset();
    /// As reset(), in one step too, but what `keep` names stays, and so do the connections of agents with all that they
    /// wait for. A connection that has not yet written an agent's key is closed; its client has to come again.
    void reset(const KeepOnReset& keep);

    // What a client can ask, for the process itself: any thread, at once, without a socket. Keys are as on the wire.
    // Clients that wait are woken as by a client's request. No memory limit holds. Never from the log's callback.
    void set(std::string_view key, std::string_view value);
    /// All in one step: nobody sees some of them only.
    void multi_set(const StorePairs& pairs);
    std::optional<std::string> get(std::string_view key) const;
    /// As on the wire: the value that the key has afterwards; `expected` itself where the key is missing and stays so.
    std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired);
    /// How many of them were there. In one step.
    std::size_t remove(const std::vector<std::string>& keys);

    StoreStatistics statistics() const;

  private:
    struct Parts;
    explicit StoreHost(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace cpprun
