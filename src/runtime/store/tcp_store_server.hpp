// SPDX-License-Identifier: BSD-3-Clause
// The data path of a store: one epoll loop that accepts, reads, lets sessions work and writes. Several of them, each in
// its own thread, can share one engine. docs/store.md says why this is epoll and not Asio, with the measurement.
#pragma once

#include "core/store/store_session.hpp"
#include "runtime/store/address.hpp"
#include "runtime/store/listener.hpp"
#include "runtime/store/peer_complaints.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

/// What a server is told once.
struct StoreServerSettings {
    StoreLimits limits;
    std::optional<StoreGeneration> legacy;
    std::vector<Cidr> allowed;  ///< empty: everybody; else only these, and this machine itself
    std::chrono::milliseconds handshake_timeout{120'000};
    std::size_t connections_max = 0;
    std::chrono::milliseconds observed_silence{0};  ///< see ListenSpec
    StoreRules rules;
};

/// What all loops of one server share. `engine_mutex` guards the engine, all sessions' client states and deliveries.
struct StoreServerShared {
    StoreServerShared(StoreServerSettings given, StoreLog log)
        : settings(std::move(given)),
          complaints(std::move(log)),
          engine(memory, settings.limits.memory_bytes, settings.rules) {}

    StoreServerSettings settings;
    PeerComplaints complaints;
    MemoryCount memory{0};
    std::mutex engine_mutex;
    StoreEngine engine;
    std::atomic<std::size_t> connections{0};
    std::atomic<std::uint64_t> clients{0};  ///< so far; numbers them
};

/// Brings what the store's own process releases to the loops that have the connections. Any thread; under the engine's
/// mutex.
class StoreOutsideDelivery : public StoreDelivery {
  public:
    void deliver(StoreClientState& client, std::string_view bytes) override;
};

class StoreLoop {
  public:
    /// `shared` must outlive the loop. Errors: no epoll set or event counter to be had.
    static Result<std::unique_ptr<StoreLoop>> make(StoreServerShared& shared);
    StoreLoop(const StoreLoop&) = delete;
    StoreLoop& operator=(const StoreLoop&) = delete;
    ~StoreLoop();

    /// Accepts from this listening socket, which stays the caller's; connections go to `peers` in turn, which may
    /// contain this loop. Before run() only.
    void accept_from(const SocketFd& listener, std::vector<StoreLoop*> peers);

    /// Serves until stop(), then closes every connection.
    void run();
    /// Any thread. run() returns soon after.
    void stop();

    /// Which connections a pause leaves open.
    enum class Keep { none, agents };

    /// Any thread but the loop's own: closes every connection but those to keep, and stands still until thaw(). Returns
    /// when that is done.
    void freeze(Keep keep);
    void thaw();

  private:
    struct Connection;
    class Delivery;
    friend StoreOutsideDelivery;
    struct Pending;
    struct Deadline {
        std::chrono::steady_clock::time_point when;
        int fd;
        std::uint32_t serial;
    };
    struct Arrival {
        SocketFd socket;
        SocketAddress peer;
    };
    struct Parcel {
        int fd;
        std::uint32_t serial;
        std::string bytes;
    };

    explicit StoreLoop(StoreServerShared& shared);

    void handle_event(std::uint64_t tag, std::uint32_t events);
    void handle_commands();
    void stand_still(Keep keep);
    void watch_closely(Connection& connection);
    void accept_some(int listener);
    bool take(int listener);
    void out_of_descriptors(int listener, int error);
    bool evict_stale();
    bool welcome(int fd, const SocketAddress& peer);
    void adopt(SocketFd socket, const SocketAddress& peer);
    void adopt_arrivals();
    void hand_over_parcels();
    void post(const Connection& connection, std::string_view bytes);

    void readable(Connection& connection);
    void serve(Connection& connection, const char* bytes, std::size_t count);
    void writable(Connection& connection);
    void after_serving(Connection& connection, StoreSession::Status status);
    void flush(Connection& connection);
    void push(Connection& connection);
    void send_or_keep(Connection& connection, std::string_view bytes);
    void want(Connection& connection, std::uint32_t events);
    void account(Connection& connection);
    void doom(Connection& connection);
    void drop(Connection& connection, const std::string& reason);
    void bury_doomed();
    void close_all(Keep keep);
    void expire_handshakes();
    void resume_accepting();
    int wait_time_ms();
    Connection* find(int fd, std::uint32_t serial);
    void watch(int fd, std::uint64_t tag);
    void wake();

    StoreServerShared& shared_;
    StoreSessionContext context_;
    SocketFd epoll_;
    SocketFd wake_;
    SocketFd spare_;  // given up for a moment to refuse a connection when descriptors run out
    std::vector<int> listeners_;
    std::vector<StoreLoop*> peers_;
    std::size_t next_peer_ = 0;
    std::vector<std::unique_ptr<Connection>> connections_;  // by descriptor
    std::vector<int> doomed_;
    std::deque<Deadline> deadlines_;
    std::uint32_t next_serial_ = 1;
    std::unique_ptr<char[]> input_;
    ReplyBuffer reply_;
    Connection* serving_ = nullptr;
    std::chrono::steady_clock::time_point now_;
    std::optional<std::chrono::steady_clock::time_point> accept_again_;

    std::mutex command_mutex_;
    std::condition_variable command_done_;
    std::atomic<bool> stop_{false};
    bool freeze_ = false;
    Keep keep_ = Keep::none;
    bool frozen_ = false;
    std::vector<Arrival> arrivals_;
    std::vector<Parcel> parcels_;
    std::atomic<bool> commands_{false};
    std::atomic<bool> has_parcels_{false};
};

}  // namespace cpprun
