// SPDX-License-Identifier: BSD-3-Clause
// A store in this process: its listening sockets, its threads, its data. Any PyTorch from 2.2 on can be its client.
#pragma once

#include "core/error.hpp"
#include "runtime/store/listener.hpp"
#include "runtime/store/store_log.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cpprun {

/// Where and how a store listens. The defaults are those of a job on one node.
struct ListenSpec {
    using Scope = ListenScope;

    Scope scope = Scope::loopback;
    std::uint16_t port = 0;                   ///< 0: any port that is free in every family
    std::vector<std::string> bind_addresses;  ///< numeric; where there are any, exactly these and not the scope's
    std::vector<std::string> allow_cidrs;     ///< where there are any, only peers inside these, and this machine itself
    bool legacy = false;                      ///< serve clients of PyTorch 1.13 to 2.1 too, which have no handshake
    int threads = 1;                          ///< threads that move bytes
    std::size_t connections_max = 0;          ///< 0: what the descriptor limit leaves when the store starts
    std::size_t memory_bytes_max = 0;         ///< all that the store holds; 0: half of the machine's memory
    std::size_t request_bytes_max = std::size_t{1} << 30U;  ///< one request, keys and values together
    std::chrono::milliseconds handshake_timeout{120'000};   ///< for a new connection's first five bytes
};

/// A look at a running store, for tests and reports.
struct StoreStatistics {
    std::size_t connections = 0;
    std::size_t keys = 0;
    std::size_t awaited_keys = 0;  ///< keys that somebody waits for
    std::size_t memory_bytes = 0;  ///< by the store's own count
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

    StoreStatistics statistics() const;

  private:
    struct Parts;
    explicit StoreHost(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace cpprun
