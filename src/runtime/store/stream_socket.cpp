// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/store/stream_socket.hpp"

#include "core/error.hpp"
#include "runtime/store/name_question.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace cpprun {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = StoreFailure::Kind;

constexpr std::size_t read_ahead = std::size_t{64} << 10U;

int milliseconds_left(SteadyTime deadline) {
    const auto now = Clock::now();
    if (deadline <= now) return 0;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
    return static_cast<int>(std::min<std::int64_t>(left, INT_MAX));
}

bool await(int fd, short events, SteadyTime deadline) {
    for (;;) {
        pollfd entry{fd, events, 0};
        const int ready = poll(&entry, 1, milliseconds_left(deadline));
        if (ready > 0) return true;
        if (ready == 0 && Clock::now() >= deadline) return false;
        if (ready < 0 && errno != EINTR) return true;  // the next call on the socket tells
    }
}

bool never_helps(int error) {
    return error == EAFNOSUPPORT || error == EADDRNOTAVAIL || error == EACCES || error == EPERM || error == EINVAL;
}

// Returns 0 or errno.
int connect_one(const SocketAddress& address, SteadyTime deadline, SocketFd& connected) {
    SocketFd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return errno;
    set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
    if (connect(fd.get(), address.data(), address.length) != 0) {
        if (errno != EINPROGRESS && errno != EINTR) return errno;
        if (!await(fd.get(), POLLOUT, deadline)) return ETIMEDOUT;
        int error = 0;
        socklen_t length = sizeof error;
        getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
        if (error != 0) return error;
    }
    // A connect to a port of the dynamic range that nobody listens on can meet itself.
    SocketAddress peer;
    peer.length = sizeof peer.storage;
    getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.length);
    const SocketAddress own = local_address(fd.get());
    if (same_host(own, peer) && own.port() == peer.port()) return ECONNREFUSED;
    connected = std::move(fd);
    return 0;
}

}  // namespace

SteadyTime deadline_after(std::chrono::milliseconds timeout) {
    const auto now = Clock::now();
    const auto most = std::chrono::duration_cast<std::chrono::milliseconds>(SteadyTime::max() - now);
    return timeout >= most ? SteadyTime::max() : now + timeout;
}

ConnectResult<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port, SteadyTime deadline) {
    if (const auto numeric = parse_address(host, port)) return std::vector{numeric.value()};
    const auto begin = Clock::now();
    const auto question = NameQuestion::ask(host);
    while (!question->answered()) {
        if (Clock::now() >= deadline) {
            const auto asked = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
            return ConnectFailure{"the name '" + host + "' cannot be resolved: no answer from the resolver in " +
                                  std::to_string(asked) + " ms"};
        }
        await(question->descriptor(), POLLIN, deadline);
    }
    if (question->error() != 0) {
        return ConnectFailure{"the name '" + host + "' cannot be resolved: " + gai_strerror(question->error())};
    }
    std::vector<SocketAddress> addresses = question->addresses();
    for (SocketAddress& address : addresses) address.set_port(port);
    return addresses;
}

ConnectResult<StreamSocket> StreamSocket::connect(const std::vector<SocketAddress>& addresses, SteadyTime deadline) {
    ConnectFailure failure{{}, true};
    auto left = static_cast<std::int64_t>(addresses.size());
    for (const SocketAddress& address : addresses) {
        const SteadyTime share =
            left == 1 ? deadline : std::min(deadline, Clock::now() + (deadline - Clock::now()) / left);
        --left;
        SocketFd socket;
        const int error = connect_one(address, share, socket);
        if (error == 0) return StreamSocket(std::move(socket));
        failure.final = failure.final && never_helps(error);
        failure.message += (failure.message.empty() ? "" : "; ") + endpoint_text(address) + ": " + error_text(error);
    }
    return failure;
}

StoreResult<void> StreamSocket::send(std::string_view bytes, SteadyTime deadline) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!await(socket_.get(), POLLOUT, deadline)) return StoreFailure{Kind::timeout, "the peer takes no bytes"};
        } else if (errno != EINTR) {
            return StoreFailure{Kind::connection, "the connection is lost: " + error_text(errno)};
        }
    }
    return boost::outcome_v2::success();
}

bool StreamSocket::readable(SteadyTime deadline) const {
    return taken_ < ahead_.size() || await(socket_.get(), POLLIN, deadline);
}

StoreResult<std::string> StreamSocket::receive(std::size_t count, SteadyTime deadline) {
    while (ahead_.size() - taken_ < count) {
        const std::size_t room = std::max(read_ahead, ahead_.size());
        const ssize_t got = recv(socket_.get(), ahead_.room(room), room, 0);
        if (got > 0) {
            ahead_.commit(static_cast<std::size_t>(got));
        } else if (got == 0) {
            return StoreFailure{Kind::connection, "the peer closed the connection"};
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!await(socket_.get(), POLLIN, deadline)) return StoreFailure{Kind::timeout, "no answer in time"};
        } else if (errno != EINTR) {
            return StoreFailure{Kind::connection, "the connection is lost: " + error_text(errno)};
        }
    }
    std::string bytes(ahead_.view().substr(taken_, count));
    taken_ += count;
    if (taken_ == ahead_.size()) {
        ahead_ = ByteBuffer();
        taken_ = 0;
    }
    return bytes;
}

}  // namespace cpprun
