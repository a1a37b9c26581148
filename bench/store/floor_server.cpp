// SPDX-License-Identifier: BSD-3-Clause
// The floor: one thread, one epoll set, a read and a write for each request, and no idea what it means. Arguments:
// pairs REQUEST_BYTES:REPLY_BYTES, one for each request of a connection in order; the last is repeated. A request that
// starts with byte 1 while "release" is the first argument sends one byte to every other connection, one send each.
// With "pairs" every second connection's requests, which are those of the last pair of numbers, are answered on the
// connection accepted before it.
#include "runtime/store/listener.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace {

struct Exchange {
    std::size_t request = 0;
    std::size_t reply = 0;
};

struct Connection {
    bool open = false;
    bool swallows = false;
    std::size_t step = 0;
    std::size_t got = 0;
    int partner = -1;  // where replies but the first go; -1: to itself
};

std::vector<Exchange> exchanges;
std::vector<Connection> connections;
std::vector<char> input(std::size_t{1} << 20U);
std::vector<char> output;
bool release = false;
bool pairs = false;
int last_accepted = -1;  // whose partner is still to come

// Of the connection's first request, of each later one.
const Exchange& exchange_of(const Connection& connection) {
    return connection.partner >= 0 && connection.step > 0 ? exchanges.back() : exchanges[connection.step];
}

int partner_of(int accepted) {
    if (!pairs) return -1;
    return std::exchange(last_accepted, last_accepted < 0 ? accepted : -1);
}

void release_all(int but) {
    for (std::size_t fd = 0; fd < connections.size(); ++fd) {
        if (connections[fd].open && static_cast<int>(fd) != but)
            send(static_cast<int>(fd), output.data(), 1, MSG_NOSIGNAL);
    }
}

void serve(int fd) {
    Connection& connection = connections[static_cast<std::size_t>(fd)];
    const ssize_t got = recv(fd, input.data(), input.size(), 0);
    if (got <= 0) {
        connection = {};
        close(fd);
        return;
    }
    if (release && (input[0] == 1 || connection.swallows)) {
        if (!connection.swallows) release_all(fd);
        connection.swallows = true;
        return;
    }
    connection.got += static_cast<std::size_t>(got);
    const int target = connection.partner >= 0 && connection.step > 0 ? connection.partner : fd;
    const std::size_t last_step = exchanges.size() - (pairs ? 2 : 1);
    std::size_t reply = 0;
    while (connection.got >= exchange_of(connection).request) {
        const Exchange& exchange = exchange_of(connection);
        connection.got -= exchange.request;
        if (connection.step == 0) std::memcpy(output.data() + reply, input.data() + 6, 4);  // the ping's echo
        reply += exchange.reply;
        if (connection.step < last_step) ++connection.step;
    }
    // A reply that the socket does not take at once is waited for: this server has nothing else to do.
    for (std::size_t sent = 0; sent < reply;) {
        const ssize_t count = send(target, output.data() + sent, reply - sent, MSG_NOSIGNAL);
        if (count > 0) sent += static_cast<std::size_t>(count);
        if (count < 0 && errno != EAGAIN) return;
    }
}

}  // namespace

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        if (std::string(argv[i]) == "release") {
            release = true;
            continue;
        }
        if (std::string(argv[i]) == "pairs") {
            pairs = true;
            continue;
        }
        Exchange exchange;
        exchange.request = static_cast<std::size_t>(std::atoll(argv[i]));
        exchange.reply = static_cast<std::size_t>(std::atoll(std::strchr(argv[i], ':') + 1));
        exchanges.push_back(exchange);
    }
    std::size_t most = 0;
    for (const Exchange& exchange : exchanges) most = std::max(most, exchange.reply);
    output.resize(most * 2 + 65536);
    connections.resize(65536);
    auto bound = cpprun::bind_sockets(cpprun::ListenScope::all, 0);
    if (!bound || !cpprun::start_listening(bound.value().sockets.front())) return 1;
    const int listener = bound.value().sockets.front().get();
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = listener;
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    event.data.fd = 0;
    epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event);
    std::cout << bound.value().port << std::endl;
    std::array<epoll_event, 256> events{};
    for (;;) {
        const int count = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
        for (int i = 0; i < count; ++i) {
            const int fd = events[static_cast<std::size_t>(i)].data.fd;
            if (fd == 0) return 0;
            if (fd != listener) {
                serve(fd);
                continue;
            }
            for (int client = 0; (client = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
                connections[static_cast<std::size_t>(client)] = {true, false, 0, 0, partner_of(client)};
                event.data.fd = client;
                epoll_ctl(epoll, EPOLL_CTL_ADD, client, &event);
            }
        }
    }
}
