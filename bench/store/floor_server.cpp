// SPDX-License-Identifier: BSD-3-Clause
// The floor: one thread, one epoll set, a read and a write for each request, and no idea what it means. Arguments:
// pairs REQUEST_BYTES:REPLY_BYTES, one for each request of a connection in order; the last is repeated. A request that
// starts with byte 1 while "release" is the first argument sends one byte to every other connection, one send each.
#include "runtime/store/listener.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
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
};

std::vector<Exchange> exchanges;
std::vector<Connection> connections;
std::vector<char> input(std::size_t{1} << 20U);
std::vector<char> output;
bool release = false;

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
    std::size_t reply = 0;
    while (connection.got >= exchanges[connection.step].request) {
        const Exchange& exchange = exchanges[connection.step];
        connection.got -= exchange.request;
        if (connection.step == 0) std::memcpy(output.data() + reply, input.data() + 6, 4);  // the ping's echo
        reply += exchange.reply;
        if (connection.step + 1 < exchanges.size()) ++connection.step;
    }
    // A reply that the socket does not take at once is waited for: this server has nothing else to do.
    for (std::size_t sent = 0; sent < reply;) {
        const ssize_t count = send(fd, output.data() + sent, reply - sent, MSG_NOSIGNAL);
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
                connections[static_cast<std::size_t>(client)] = {true, false, 0, 0};
                event.data.fd = client;
                epoll_ctl(epoll, EPOLL_CTL_ADD, client, &event);
            }
        }
    }
}
