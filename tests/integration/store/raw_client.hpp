// SPDX-License-Identifier: BSD-3-Clause
// A bare socket for tests: sends bytes, reads with a bound, knows nothing of the protocol but how requests are written.
#pragma once

#include "core/store/wire_codec.hpp"
#include "runtime/store/address.hpp"
#include "runtime/store/socket_fd.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace cpprun::test {

inline constexpr std::chrono::seconds patience{20};

class RawClient {
  public:
    explicit RawClient(std::uint16_t port, const std::string& host = "127.0.0.1", int receive_buffer = 0) {
        const SocketAddress address = parse_address(host, port).value();
        socket_ = SocketFd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (receive_buffer > 0) {
            setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
        }
        connected_ = connect(socket_.get(), address.data(), address.length) == 0;
    }

    bool connected() const { return connected_; }
    int fd() const { return socket_.get(); }
    void close() { socket_.close(); }

    /// False once the peer has closed.
    bool send(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }
    bool send(const StoreRequest& request) {
        std::string bytes;
        encode_request(request, bytes);
        return send(bytes);
    }
    bool greet() { return send(std::string_view(store_handshake.data(), store_handshake.size())); }

    /// Exactly `count` bytes, or less if the peer closes or nothing comes for `patience`.
    std::string read(std::size_t count, std::chrono::milliseconds bound = patience) {
        std::string bytes(count, '\0');
        std::size_t got = 0;
        while (got < count && readable(bound)) {
            const ssize_t more = recv(socket_.get(), bytes.data() + got, count - got, 0);
            if (more <= 0) break;
            got += static_cast<std::size_t>(more);
        }
        bytes.resize(got);
        return bytes;
    }
    /// True if the peer closes within `patience`, whatever it says before.
    bool closed_by_peer() {
        std::string bytes(4096, '\0');
        while (readable(patience)) {
            if (recv(socket_.get(), bytes.data(), bytes.size(), 0) <= 0) return true;
        }
        return false;
    }
    /// True if something is to be read within `bound`.
    bool readable(std::chrono::milliseconds bound) {
        pollfd entry{socket_.get(), POLLIN, 0};
        return poll(&entry, 1, static_cast<int>(bound.count())) == 1;
    }
    /// The greeting and a get, answered: the server is alive and serves.
    std::string get(const std::string& key) {
        send({.operation = StoreOperation::get, .key = key});
        const std::string length = read(8);
        return length.size() == 8 ? read(read_u64(length.data())) : "closed";
    }
    void set(const std::string& key, const std::string& value) {
        send({.operation = StoreOperation::set, .key = key, .value = value});
    }
    std::int64_t add(const std::string& key, std::int64_t number) {
        send({.operation = StoreOperation::add, .key = key, .number = number});
        const std::string sum = read(8);
        return sum.size() == 8 ? static_cast<std::int64_t>(read_u64(sum.data())) : -1;
    }

  private:
    SocketFd socket_;
    bool connected_ = false;
};

/// A client that has said its greeting.
inline RawClient greeted(std::uint16_t port) {
    RawClient client(port);
    client.greet();
    return client;
}

/// Waits until `condition` holds; false if it does not within `patience`.
template <class Condition>
bool eventually(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        poll(nullptr, 0, 1);
    }
    return true;
}

}  // namespace cpprun::test
