// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/store/tcp_store_server.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace cpprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t input_bytes = std::size_t{256} << 10U;
constexpr int events_at_once = 256;
constexpr int accepts_at_once = 256;
constexpr std::size_t pieces_at_once = 512;
constexpr std::chrono::seconds stale_after{1};
constexpr std::chrono::milliseconds accept_pause{100};

// Tags of events: a connection has its descriptor below and its serial, never 0, above.
constexpr std::uint64_t wake_tag = UINT32_MAX;

std::uint64_t tag_of(int fd, std::uint32_t serial) {
    return (std::uint64_t{serial} << 32U) | static_cast<std::uint32_t>(fd);
}

// The three calls that a request costs, past the C library's functions of these names: those are points where a thread
// can be cancelled, which takes two atomic operations each as soon as a process has a second thread. Errors as theirs.
int next_events(int epoll, std::array<epoll_event, events_at_once>& events, int timeout_ms) {
    return static_cast<int>(syscall(SYS_epoll_pwait, epoll, events.data(), events_at_once, timeout_ms, nullptr, 0));
}

ssize_t receive(int fd, char* room, std::size_t size) {
    return syscall(SYS_recvfrom, fd, room, size, 0, nullptr, nullptr);
}

ssize_t send(int fd, std::string_view bytes) {
    return syscall(SYS_sendto, fd, bytes.data(), bytes.size(), MSG_NOSIGNAL, nullptr, 0);
}

}  // namespace

// Replies that the socket did not take at once. While there are some, nothing is read from that peer.
struct StoreLoop::Pending {
    ReplyBuffer reply;
    std::size_t piece = 0;  // even: bytes between two shared values; odd: a shared value
    std::size_t sent = 0;   // of that piece

    std::string_view piece_bytes(std::size_t index) const {
        const auto& shared = reply.shared();
        if (index % 2 == 1) return shared[index / 2].blob.view();
        const std::size_t begin = index == 0 ? 0 : shared[index / 2 - 1].offset;
        const std::size_t end = index / 2 < shared.size() ? shared[index / 2].offset : reply.bytes().size();
        return std::string_view(reply.bytes()).substr(begin, end - begin);
    }
    std::size_t pieces() const { return 2 * reply.shared().size() + 1; }

    std::size_t gather(std::array<iovec, pieces_at_once>& out) const {
        std::size_t count = 0;
        for (std::size_t i = piece; i < pieces() && count < out.size(); ++i) {
            const std::string_view bytes = piece_bytes(i).substr(i == piece ? sent : 0);
            if (!bytes.empty()) out[count++] = {const_cast<char*>(bytes.data()), bytes.size()};
        }
        return count;
    }

    void advance(std::size_t count) {
        for (; piece < pieces(); ++piece, sent = 0) {
            const std::size_t left = piece_bytes(piece).size() - sent;
            if (count < left || piece + 1 == pieces()) {
                sent += count;
                return;
            }
            count -= left;
        }
    }

    bool done() const { return piece + 1 == pieces() && sent == piece_bytes(piece).size(); }
};

struct StoreLoop::Connection {
    StoreLoop* loop = nullptr;
    SocketFd socket;
    std::uint32_t serial = 0;
    std::uint32_t wanted = 0;
    bool doomed = false;
    bool paused = false;
    bool watched_closely = false;
    std::size_t accounted = 0;
    SocketAddress peer;
    std::unique_ptr<Pending> pending;
    StoreSession session;
};

// Engine to sockets. Runs under the engine's mutex.
class StoreLoop::Delivery : public StoreDelivery {
  public:
    explicit Delivery(StoreLoop& loop) : loop_(loop) {}

    void deliver(StoreClientState& client, std::string_view bytes) override {
        Connection& target = connection_of(client);
        if (&target == loop_.serving_) return loop_.reply_.add(bytes);
        if (target.loop == &loop_) return loop_.send_or_keep(target, bytes);
        target.loop->post(target, bytes);
    }

    static Connection& connection_of(StoreClientState& client) { return *static_cast<Connection*>(client.owner); }

  private:
    StoreLoop& loop_;
};

void StoreOutsideDelivery::deliver(StoreClientState& client, std::string_view bytes) {
    const StoreLoop::Connection& target = StoreLoop::Delivery::connection_of(client);
    target.loop->post(target, bytes);
}

StoreLoop::StoreLoop(StoreServerShared& shared)
    : shared_(shared),
      context_{shared.engine, shared.settings.limits, shared.settings.legacy},
      input_(std::make_unique_for_overwrite<char[]>(input_bytes)) {}

StoreLoop::~StoreLoop() {
    close_all(Keep::none);
}

Result<std::unique_ptr<StoreLoop>> StoreLoop::make(StoreServerShared& shared) {
    std::unique_ptr<StoreLoop> loop(new StoreLoop(shared));
    loop->epoll_ = SocketFd(epoll_create1(EPOLL_CLOEXEC));
    if (!loop->epoll_.valid()) return failure("no epoll set for the store: " + error_text(errno));
    loop->wake_ = SocketFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!loop->wake_.valid()) return failure("no event counter for the store: " + error_text(errno));
    loop->spare_ = SocketFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    loop->watch(loop->wake_.get(), wake_tag);
    return loop;
}

void StoreLoop::watch(int fd, std::uint64_t tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void StoreLoop::wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

void StoreLoop::accept_from(const SocketFd& listener, std::vector<StoreLoop*> peers) {
    listeners_.push_back(listener.get());
    peers_ = std::move(peers);
    watch(listener.get(), tag_of(listener.get(), 0));
}

void StoreLoop::run() {
    std::array<epoll_event, events_at_once> events{};
    while (!stop_) {
        const int count = next_events(epoll_.get(), events, wait_time_ms());
        for (int i = 0; i < count; ++i) {
            const epoll_event& event = events[static_cast<std::size_t>(i)];
            handle_event(event.data.u64, event.events);
        }
        if (!doomed_.empty()) bury_doomed();
        if (!deadlines_.empty()) expire_handshakes();
        if (accept_again_) resume_accepting();
        if (commands_) handle_commands();
    }
    close_all(Keep::none);
}

void StoreLoop::handle_event(std::uint64_t tag, std::uint32_t events) {
    if (tag == wake_tag) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof count);
        commands_ = true;
        return;
    }
    const int fd = static_cast<int>(tag & UINT32_MAX);
    const auto serial = static_cast<std::uint32_t>(tag >> 32U);
    if (serial == 0) return accept_some(fd);
    Connection* connection = find(fd, serial);
    if (connection == nullptr || connection->doomed) return;
    if ((events & EPOLLIN) != 0) return readable(*connection);
    if ((events & EPOLLOUT) != 0) return writable(*connection);
    doom(*connection);
}

StoreLoop::Connection* StoreLoop::find(int fd, std::uint32_t serial) {
    const auto index = static_cast<std::size_t>(fd);
    if (index >= connections_.size() || !connections_[index]) return nullptr;
    return connections_[index]->serial == serial ? connections_[index].get() : nullptr;
}

// --- from other threads -------------------------------------------------------------------------------------------

void StoreLoop::stop() {
    {
        const std::scoped_lock lock(command_mutex_);
        stop_ = true;
        commands_ = true;
    }
    command_done_.notify_all();
    wake();
}

void StoreLoop::freeze(Keep keep) {
    std::unique_lock lock(command_mutex_);
    freeze_ = true;
    keep_ = keep;
    commands_ = true;
    wake();
    command_done_.wait(lock, [this] { return frozen_ || stop_; });
}

void StoreLoop::thaw() {
    {
        const std::scoped_lock lock(command_mutex_);
        freeze_ = false;
    }
    command_done_.notify_all();
}

// For a connection of this loop, from another thread.
void StoreLoop::post(const Connection& connection, std::string_view bytes) {
    bool first = false;
    {
        const std::scoped_lock lock(command_mutex_);
        first = parcels_.empty();
        parcels_.push_back({connection.socket.get(), connection.serial, std::string(bytes)});
        has_parcels_ = true;
    }
    if (first) wake();
}

void StoreLoop::handle_commands() {
    commands_ = false;
    adopt_arrivals();
    if (has_parcels_) {
        const std::scoped_lock lock(shared_.engine_mutex);
        hand_over_parcels();
    }
    std::optional<Keep> freeze;
    {
        const std::scoped_lock lock(command_mutex_);
        if (freeze_) freeze = keep_;
    }
    if (freeze) stand_still(*freeze);
}

// Parcels stay: those for connections that are gone find nobody.
void StoreLoop::stand_still(Keep keep) {
    close_all(keep);
    std::unique_lock lock(command_mutex_);
    arrivals_.clear();
    frozen_ = true;
    command_done_.notify_all();
    command_done_.wait(lock, [this] { return !freeze_ || stop_; });
    frozen_ = false;
}

void StoreLoop::adopt_arrivals() {
    std::vector<Arrival> arrivals;
    {
        const std::scoped_lock lock(command_mutex_);
        arrivals.swap(arrivals_);
    }
    for (Arrival& arrival : arrivals) adopt(std::move(arrival.socket), arrival.peer);
}

void StoreLoop::hand_over_parcels() {
    std::vector<Parcel> parcels;
    {
        const std::scoped_lock lock(command_mutex_);
        parcels.swap(parcels_);
        has_parcels_ = false;
    }
    for (const Parcel& parcel : parcels) {
        Connection* connection = find(parcel.fd, parcel.serial);
        if (connection != nullptr) send_or_keep(*connection, parcel.bytes);
    }
}

// --- accepting ----------------------------------------------------------------------------------------------------

void StoreLoop::accept_some(int listener) {
    now_ = Clock::now();
    for (int i = 0; i < accepts_at_once && take(listener); ++i) {
    }
}

// False: nothing more to be had at the moment.
bool StoreLoop::take(int listener) {
    SocketAddress peer;
    peer.length = sizeof peer.storage;
    auto* storage = reinterpret_cast<sockaddr*>(&peer.storage);
    SocketFd socket(accept4(listener, storage, &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.valid()) {
        if (!welcome(socket.get(), peer)) return true;
        StoreLoop* to = peers_[next_peer_++ % peers_.size()];
        if (to == this) {
            adopt(std::move(socket), peer);
            return true;
        }
        {
            const std::scoped_lock lock(to->command_mutex_);
            to->arrivals_.push_back({std::move(socket), peer});
        }
        to->wake();
        return true;
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) return false;
    if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) return true;
    out_of_descriptors(listener, error);
    return !accept_again_;
}

bool StoreLoop::welcome(int fd, const SocketAddress& peer) {
    const auto inside = [&](const Cidr& range) { return range.contains(peer); };
    const auto& allowed = shared_.settings.allowed;
    if (!allowed.empty() && std::ranges::none_of(allowed, inside) && !is_loopback(peer) &&
        !same_host(peer, local_address(fd))) {
        shared_.complaints.add(address_text(peer), "store: refused " + endpoint_text(peer) + ": not an allowed address",
                               now_);
        return false;
    }
    if (shared_.connections < shared_.settings.connections_max || evict_stale()) return true;
    shared_.complaints.add("connections",
                           "store: refused " + endpoint_text(peer) + ": " +
                               std::to_string(shared_.settings.connections_max) +
                               " connections are open, and no more are allowed",
                           now_);
    return false;
}

// A connection that has said nothing yet makes room for one that might.
bool StoreLoop::evict_stale() {
    if (deadlines_.empty()) return false;
    const Deadline oldest = deadlines_.front();
    if (oldest.when - shared_.settings.handshake_timeout + stale_after > now_) return false;
    deadlines_.pop_front();
    Connection* connection = find(oldest.fd, oldest.serial);
    if (connection == nullptr || connection->session.greeted()) return evict_stale();
    drop(*connection, "no handshake, and its place is needed");
    bury_doomed();
    return true;
}

void StoreLoop::out_of_descriptors(int listener, int error) {
    if (evict_stale()) return;
    spare_.close();
    SocketAddress peer;
    peer.length = sizeof peer.storage;
    SocketFd refused(accept4(listener, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length, SOCK_CLOEXEC));
    const bool pause = !refused.valid() && errno != EAGAIN;
    if (refused.valid()) {
        shared_.complaints.add("descriptors", "store: refused " + endpoint_text(peer) + ": " + error_text(error), now_);
    }
    refused.close();
    spare_ = SocketFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!pause) return;
    accept_again_ = now_ + accept_pause;
    for (const int fd : listeners_) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void StoreLoop::resume_accepting() {
    if (Clock::now() < *accept_again_) return;
    accept_again_.reset();
    if (!spare_.valid()) spare_ = SocketFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    for (const int fd : listeners_) watch(fd, tag_of(fd, 0));
}

void StoreLoop::adopt(SocketFd socket, const SocketAddress& peer) {
    const int fd = socket.get();
    const auto index = static_cast<std::size_t>(fd);
    if (index >= connections_.size()) connections_.resize(std::max(index + 1, 2 * connections_.size()));
    auto connection = std::make_unique<Connection>();
    connection->loop = this;
    connection->socket = std::move(socket);
    connection->serial = next_serial_;
    next_serial_ = next_serial_ == INT32_MAX ? 1 : next_serial_ + 1;
    connection->peer = peer;
    connection->wanted = EPOLLIN;
    connection->session.client().owner = connection.get();
    connection->session.client().id = ++shared_.clients;
    watch(fd, tag_of(fd, connection->serial));
    // Generation A's clients keep a second connection on which they never say anything.
    if (!shared_.settings.legacy)
        deadlines_.push_back({Clock::now() + shared_.settings.handshake_timeout, fd, connection->serial});
    connections_[index] = std::move(connection);
    ++shared_.connections;
}

// --- reading and writing ------------------------------------------------------------------------------------------

void StoreLoop::readable(Connection& connection) {
    // A long request is received where it stays; a short one over shared memory, so that a slow peer holds no more
    // than it has sent.
    const std::size_t held = connection.session.held_bytes();
    const bool in_place = held >= input_bytes;
    char* target = in_place ? connection.session.rest_room(held / 2) : input_.get();
    const ssize_t got = receive(connection.socket.get(), target, in_place ? held / 2 : input_bytes);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) doom(connection);
        return;
    }
    serve(connection, in_place ? nullptr : target, static_cast<std::size_t>(got));
}

// Without `bytes`, `count` of them have been received in place.
void StoreLoop::serve(Connection& connection, const char* bytes, std::size_t count) {
    auto status = StoreSession::Status::rejected;
    {
        const std::scoped_lock lock(shared_.engine_mutex);
        if (has_parcels_) hand_over_parcels();
        serving_ = &connection;
        Delivery delivery(*this);
        status = bytes == nullptr ? connection.session.continue_rest(context_, count, reply_, delivery)
                                  : connection.session.serve(context_, {bytes, count}, reply_, delivery);
        serving_ = nullptr;
    }
    after_serving(connection, status);
}

void StoreLoop::after_serving(Connection& connection, StoreSession::Status status) {
    if (!reply_.empty()) flush(connection);
    if (status == StoreSession::Status::rejected) return drop(connection, connection.session.fault());
    if (connection.doomed) return;
    if (connection.session.client().observed && !connection.watched_closely) watch_closely(connection);
    connection.paused = status == StoreSession::Status::paused;
    // Also after a pause with nothing left to send: the others get their turn first.
    want(connection, connection.pending || connection.paused ? EPOLLOUT : EPOLLIN);
    account(connection);
}

// The last setting decides when it is over, also for what was sent and is not acknowledged; the others let the kernel
// ask often enough.
void StoreLoop::watch_closely(Connection& connection) {
    connection.watched_closely = true;
    const auto bound = static_cast<int>(shared_.settings.observed_silence.count());
    if (bound <= 0) return;
    const auto set = [&](int option, int value) {
        setsockopt(connection.socket.get(), IPPROTO_TCP, option, &value, sizeof value);
    };
    constexpr int ms_per_second = 1000;
    set(TCP_KEEPIDLE, std::max(1, bound * 2 / 5 / ms_per_second));
    set(TCP_KEEPINTVL, std::max(1, bound / 5 / ms_per_second));
    set(TCP_USER_TIMEOUT, bound);
}

void StoreLoop::flush(Connection& connection) {
    if (reply_.shared().empty() && !connection.pending) {
        send_or_keep(connection, reply_.bytes());
        reply_.clear();
        return;
    }
    if (!connection.pending) connection.pending = std::make_unique<Pending>();
    connection.pending->reply = std::move(reply_);
    reply_ = ReplyBuffer();
    push(connection);
}

// Sends what is pending, as far as the socket takes it.
void StoreLoop::push(Connection& connection) {
    Pending& pending = *connection.pending;
    std::array<iovec, pieces_at_once> pieces;
    while (!pending.done()) {
        msghdr message{};
        message.msg_iov = pieces.data();
        message.msg_iovlen = pending.gather(pieces);
        const ssize_t sent = sendmsg(connection.socket.get(), &message, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR) continue;
            if (errno != EAGAIN && errno != EWOULDBLOCK) doom(connection);
            return;
        }
        pending.advance(static_cast<std::size_t>(sent));
    }
    connection.pending.reset();
}

void StoreLoop::send_or_keep(Connection& connection, std::string_view bytes) {
    if (connection.doomed) return;
    if (!connection.pending) {
        const ssize_t sent = send(connection.socket.get(), bytes);
        if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return doom(connection);
        if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
        if (bytes.empty()) return;
        connection.pending = std::make_unique<Pending>();
        want(connection, EPOLLOUT);
    }
    connection.pending->reply.add(bytes);
}

void StoreLoop::writable(Connection& connection) {
    if (connection.pending) push(connection);
    if (connection.doomed || connection.pending) return;
    if (connection.paused) return serve(connection, "", 0);
    want(connection, EPOLLIN);
    account(connection);
}

void StoreLoop::want(Connection& connection, std::uint32_t events) {
    if (connection.wanted == events) return;
    connection.wanted = events;
    const int fd = connection.socket.get();
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag_of(fd, connection.serial);
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void StoreLoop::account(Connection& connection) {
    const std::size_t held =
        connection.session.held_bytes() + (connection.pending ? connection.pending->reply.own_size() : 0);
    if (held == connection.accounted) return;
    const bool more = held > connection.accounted;
    shared_.memory += held - connection.accounted;  // wraps around where it shrinks
    connection.accounted = held;
    if (more && shared_.memory > shared_.settings.limits.memory_bytes) {
        drop(connection, "the store's memory limit is reached");
    }
}

// --- ends ---------------------------------------------------------------------------------------------------------

void StoreLoop::doom(Connection& connection) {
    if (connection.doomed) return;
    connection.doomed = true;
    doomed_.push_back(connection.socket.get());
}

void StoreLoop::drop(Connection& connection, const std::string& reason) {
    if (connection.doomed) return;
    shared_.complaints.add(address_text(connection.peer),
                           "store: dropped " + endpoint_text(connection.peer) + ": " + reason, Clock::now());
    doom(connection);
}

void StoreLoop::bury_doomed() {
    const std::scoped_lock lock(shared_.engine_mutex);
    for (const int fd : doomed_) {
        auto& connection = connections_[static_cast<std::size_t>(fd)];
        shared_.engine.forget(connection->session.client());
        shared_.memory -= connection->accounted;
        connection.reset();
        --shared_.connections;
    }
    doomed_.clear();
}

void StoreLoop::close_all(Keep keep) {
    for (const auto& connection : connections_) {
        if (connection && (keep == Keep::none || !connection->session.client().agent)) doom(*connection);
    }
    bury_doomed();
    deadlines_.clear();
}

void StoreLoop::expire_handshakes() {
    while (!deadlines_.empty()) {
        const Deadline& next = deadlines_.front();
        Connection* connection = find(next.fd, next.serial);
        if (connection != nullptr && !connection->session.greeted()) {
            if (Clock::now() < next.when) return;
            drop(*connection, "no handshake in time");
            bury_doomed();
        }
        deadlines_.pop_front();
    }
}

int StoreLoop::wait_time_ms() {
    std::optional<Clock::time_point> when = accept_again_;
    if (!deadlines_.empty() && (!when || deadlines_.front().when < *when)) when = deadlines_.front().when;
    if (!when) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*when - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

}  // namespace cpprun
