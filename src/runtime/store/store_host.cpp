// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/store/store_host.hpp"

#include "runtime/store/tcp_store_server.hpp"

#include <algorithm>
#include <mutex>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace cpprun {
namespace {

// Descriptors that the rest of the process needs: pipes, logs, epoll sets.
constexpr std::size_t descriptors_kept_free = 512;

std::size_t default_connections_max() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
    const auto soft = static_cast<std::size_t>(limit.rlim_cur);
    return soft - std::min(descriptors_kept_free, soft / 4);
}

std::size_t default_memory_max() {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0) return std::size_t{1} << 32U;
    return static_cast<std::size_t>(pages) / 2 * static_cast<std::size_t>(page);
}

Result<StoreServerSettings> settings_of(const ListenSpec& spec) {
    StoreServerSettings settings;
    settings.limits.request_bytes = spec.request_bytes_max;
    settings.limits.memory_bytes = spec.memory_bytes_max != 0 ? spec.memory_bytes_max : default_memory_max();
    settings.connections_max = spec.connections_max != 0 ? spec.connections_max : default_connections_max();
    settings.handshake_timeout = spec.handshake_timeout;
    settings.observed_silence = spec.observed_silence;
    settings.rules = {.agent_prefixes = spec.agent_prefixes,
                      .observed_prefixes = spec.observed_prefixes,
                      .ephemeral_prefixes = spec.ephemeral_prefixes,
                      .observer = spec.observer};
    if (spec.legacy) settings.legacy = StoreGeneration::a_or_b;
    for (const std::string& text : spec.allow_cidrs) {
        BOOST_OUTCOME_TRY(const auto range, Cidr::parse(text));
        settings.allowed.push_back(range);
    }
    return settings;
}

// Signals are for the process's main thread.
std::jthread quiet_thread(StoreLoop& loop) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::jthread thread([&loop] { loop.run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread.native_handle(), "cpprun-store");
    return thread;
}

void refuse_queued(const SocketFd& listener) {
    for (;;) {
        const SocketFd refused(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!refused.valid()) return;
    }
}

}  // namespace

struct StoreHost::Parts {
    Parts(StoreServerSettings settings, StoreLog log) : shared(std::move(settings), std::move(log)) {}

    StoreServerShared shared;
    BoundSockets bound;
    std::vector<std::unique_ptr<StoreLoop>> loops;
    std::vector<std::jthread> threads;
    std::mutex reset_mutex;
    StoreOutsideDelivery delivery;

    // All loops stand still meanwhile, so that nobody sees half of it.
    template <class Forget>
    void reset(StoreLoop::Keep keep, Forget forget) {
        const std::scoped_lock lock(reset_mutex);
        for (const auto& loop : loops) loop->freeze(keep);
        for (const SocketFd& socket : bound.sockets) refuse_queued(socket);
        {
            const std::scoped_lock engine_lock(shared.engine_mutex);
            forget(shared.engine);
        }
        for (const auto& loop : loops) loop->thaw();
    }
};

StoreHost::StoreHost(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

namespace {

Result<BoundSockets> bind_and_listen(const ListenSpec& spec) {
    PortRange ports = spec.port;
    for (;;) {
        BOOST_OUTCOME_TRY(auto bound, bind_sockets(spec.scope, ports, spec.bind_addresses));
        Result<void> listening = boost::outcome_v2::success();
        for (const SocketFd& socket : bound.sockets)
            if (listening) listening = start_listening(socket);
        if (listening) return bound;
        // Another who bound the same port at the same time was the first to listen there.
        if (bound.port >= ports.last) return listening.error();
        ports.first = static_cast<std::uint16_t>(bound.port + 1);
    }
}

}  // namespace

Result<std::unique_ptr<StoreHost>> StoreHost::start(const ListenSpec& spec, StoreLog log) {
    BOOST_OUTCOME_TRY(auto settings, settings_of(spec));
    auto parts = std::make_unique<Parts>(std::move(settings), std::move(log));
    BOOST_OUTCOME_TRY(parts->bound, bind_and_listen(spec));
    for (const auto& [key, value] : spec.initial_values) parts->shared.engine.set(key, value, parts->delivery);
    std::vector<StoreLoop*> peers;
    for (int i = 0; i < std::max(spec.threads, 1); ++i) {
        BOOST_OUTCOME_TRY(auto loop, StoreLoop::make(parts->shared));
        peers.push_back(loop.get());
        parts->loops.push_back(std::move(loop));
    }
    for (const SocketFd& socket : parts->bound.sockets) {
        parts->loops.front()->accept_from(socket, peers);
    }
    for (const auto& loop : parts->loops) parts->threads.push_back(quiet_thread(*loop));
    return std::unique_ptr<StoreHost>(new StoreHost(std::move(parts)));
}

StoreHost::~StoreHost() {
    for (const auto& loop : parts_->loops) loop->stop();
    parts_->threads.clear();
    parts_->shared.complaints.say(StoreLogLevel::debug,
                                  "store: " + std::to_string(statistics().requests) + " requests were answered");
}

std::uint16_t StoreHost::port() const {
    return parts_->bound.port;
}

void StoreHost::reset() {
    parts_->reset(StoreLoop::Keep::none, [](StoreEngine& engine) { engine.clear(); });
}

void StoreHost::reset(const KeepOnReset& keep) {
    parts_->reset(StoreLoop::Keep::agents, [&](StoreEngine& engine) { engine.clear_but(keep.key_prefixes); });
}

void StoreHost::set(std::string_view key, std::string_view value) {
    const std::scoped_lock lock(parts_->shared.engine_mutex);
    parts_->shared.engine.set(key, value, parts_->delivery);
}

void StoreHost::multi_set(const StorePairs& pairs) {
    const std::scoped_lock lock(parts_->shared.engine_mutex);
    for (const auto& [key, value] : pairs) parts_->shared.engine.set(key, value, parts_->delivery);
}

std::optional<std::string> StoreHost::get(std::string_view key) const {
    const std::scoped_lock lock(parts_->shared.engine_mutex);
    return parts_->shared.engine.get(key);
}

std::string StoreHost::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
    const std::scoped_lock lock(parts_->shared.engine_mutex);
    return parts_->shared.engine.compare_set(key, expected, desired, parts_->delivery);
}

std::size_t StoreHost::remove(const std::vector<std::string>& keys) {
    const std::scoped_lock lock(parts_->shared.engine_mutex);
    std::size_t removed = 0;
    for (const std::string& key : keys) {
        if (parts_->shared.engine.remove(key, parts_->delivery)) ++removed;
    }
    return removed;
}

StoreStatistics StoreHost::statistics() const {
    const std::scoped_lock lock(parts_->shared.engine_mutex);
    return {parts_->shared.connections, parts_->shared.engine.number_of_keys(), parts_->shared.engine.awaited_keys(),
            parts_->shared.memory, parts_->shared.engine.requests()};
}

}  // namespace cpprun
