// SPDX-License-Identifier: BSD-3-Clause
// One client process for all servers: one thread, one request in flight on each connection. Arguments:
//   PORT SERVER_PID MODE CONNECTIONS SECONDS
// Modes: get set add check wait_set wait_set_delete pipeline multi_get big storm million. Prints one line of JSON.
// "shape MODE" prints what the floor server needs to know instead.
#include "core/store/messages.hpp"
#include "core/store/wire_codec.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <netinet/tcp.h>
#include <sstream>
#include <string>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

using cpprun::StoreRequest;
using Op = cpprun::StoreOperation;
using Clock = std::chrono::steady_clock;

constexpr std::size_t value_bytes = 64;
constexpr std::size_t pipelined = 64;
constexpr std::size_t multi_get_keys = 10'000;
constexpr std::size_t big_bytes = std::size_t{8} << 20U;

std::string encoded(const StoreRequest& request) {
    std::string bytes;
    cpprun::encode_request(request, bytes);
    return bytes;
}

std::string greeting() {
    return std::string(cpprun::store_handshake.data(), cpprun::store_handshake.size()) +
           encoded({.operation = Op::ping, .nonce = 0x00801234});
}

// All keys of one mode have the same length, so that the floor server can count bytes.
std::string key_of(std::size_t connection) {
    std::string digits = std::to_string(connection);
    return "/bench/" + std::string(8 - digits.size(), '0') + digits;
}

struct Exchange {
    std::string prepare;  // sent once, unanswered
    std::string request;
    std::size_t reply = 0;
    std::size_t operations = 1;
};

Exchange multi_get_exchange(std::size_t connection) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < multi_get_keys; ++i) names.push_back(key_of(connection * multi_get_keys + i));
    const std::vector<std::string_view> keys(names.begin(), names.end());
    const std::string value(value_bytes, 'v');
    const std::vector<std::string_view> values(names.size(), value);
    return {encoded({.operation = Op::multi_set, .keys = keys, .values = values}),
            encoded({.operation = Op::multi_get, .keys = keys}), multi_get_keys * (8 + value_bytes)};
}

Exchange exchange_of(const std::string& mode, std::size_t connection) {
    const std::string key = key_of(connection);
    const std::string_view view = key;
    const std::string value(value_bytes, 'v');
    const std::string set = encoded({.operation = Op::set, .key = key, .value = value});
    const std::string get = encoded({.operation = Op::get, .key = key});
    if (mode == "get") return {set, get, 8 + value_bytes};
    // A set has no answer of its own: a ping behind it tells when it is done.
    if (mode == "set") return {"", set + encoded({.operation = Op::ping, .nonce = 1}), 4};
    if (mode == "add") return {"", encoded({.operation = Op::add, .key = key, .number = 1}), 8};
    if (mode == "check") return {set, encoded({.operation = Op::check, .keys = {&view, 1}}), 1};
    if (mode == "wait_set_delete") {
        return {
            "",
            encoded({.operation = Op::wait, .keys = {&view, 1}}) + set + encoded({.operation = Op::remove, .key = key}),
            1 + 8};
    }
    // What a waiter sends; its partner sends what set_for_waiter tells.
    if (mode == "wait_set") {
        return {"",
                encoded({.operation = Op::remove, .key = key}) + encoded({.operation = Op::wait, .keys = {&view, 1}}),
                8};
    }
    if (mode == "pipeline") {
        std::string many;
        for (std::size_t i = 0; i < pipelined; ++i) many += get;
        return {set, many, pipelined * (8 + value_bytes), pipelined};
    }
    if (mode == "multi_get") return multi_get_exchange(connection);
    if (mode == "big") {
        const std::string shared = "/bench/big";
        return {"", encoded({.operation = Op::get, .key = shared}), 8 + big_bytes};
    }
    std::cerr << "no mode " << mode << std::endl;
    std::exit(2);
}

std::string set_for_waiter(std::size_t connection) {
    return encoded({.operation = Op::set, .key = key_of(connection), .value = std::string(value_bytes, 'v')});
}

struct Connection {
    int fd = -1;
    std::string request;
    std::size_t reply = 0;
    std::size_t got = 0;
    Clock::time_point sent;
};

void send_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) continue;
        if (sent <= 0) {
            std::cerr << "connection lost" << std::endl;
            std::exit(1);
        }
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
}

int connect_to(std::uint16_t port, std::size_t number) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    // Several source addresses, so that ports do not run out.
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + static_cast<std::uint32_t>(number % 8));
    const int one = 1;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        std::cerr << "cannot connect: " << errno << std::endl;
        std::exit(1);
    }
    return fd;
}

void receive_exactly(int fd, std::size_t count) {
    std::vector<char> bytes(count);
    if (recv(fd, bytes.data(), count, MSG_WAITALL) != static_cast<ssize_t>(count)) {
        std::cerr << "connection lost" << std::endl;
        std::exit(1);
    }
}

double seconds(Clock::duration time) {
    return std::chrono::duration<double>(time).count();
}

double cpu_seconds_of(const std::string& process) {
    std::ifstream file("/proc/" + process + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream rest(text.substr(text.rfind(')') + 1));
    std::string skip;
    for (int i = 0; i < 11; ++i) rest >> skip;
    double user = 0;
    double system = 0;
    rest >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double own_cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto of = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
}

std::size_t resident_bytes(const std::string& process) {
    std::ifstream file("/proc/" + process + "/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    file >> total >> resident;
    return resident * 4096;
}

class Epoll {
  public:
    void add(int fd, std::size_t index) const {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = index;
        epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event);
    }
    template <class Handle>
    void wait(Handle handle) {
        const int count = epoll_wait(fd_, events_.data(), static_cast<int>(events_.size()), 10'000);
        if (count == 0) {
            std::cerr << "nothing for ten seconds" << std::endl;
            std::exit(1);
        }
        for (int i = 0; i < count; ++i) handle(static_cast<std::size_t>(events_[static_cast<std::size_t>(i)].data.u64));
    }

  private:
    int fd_ = epoll_create1(EPOLL_CLOEXEC);
    std::array<epoll_event, 256> events_{};
};

std::vector<char> input(std::size_t{4} << 20U);

std::size_t receive_some(int fd) {
    const ssize_t got = recv(fd, input.data(), input.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) {
        std::cerr << "connection lost" << std::endl;
        std::exit(1);
    }
    return static_cast<std::size_t>(got);
}

int rounds(std::uint16_t port, const std::string& server, const std::string& mode, std::size_t count, double duration) {
    if (mode == "big") {
        const int setter = connect_to(port, count);
        send_all(setter, greeting());
        receive_exactly(setter, 4);
        send_all(setter, encoded({.operation = Op::set, .key = "/bench/big", .value = std::string(big_bytes, 'b')}));
        usleep(300'000);
    }
    Epoll epoll;
    std::vector<Connection> connections(count);
    std::size_t operations_each = 1;
    // Then every second connection only sets what the one before it waits for, once it surely waits.
    const bool pairs = mode == "wait_set";
    const std::size_t stride = pairs ? 2 : 1;
    for (std::size_t i = 0; i < count; ++i) {
        Exchange exchange = exchange_of(mode, i);
        Connection& connection = connections[i];
        connection.fd = connect_to(port, i);
        send_all(connection.fd, greeting());
        receive_exactly(connection.fd, 4);
        send_all(connection.fd, exchange.prepare);
        connection.request = std::move(exchange.request);
        connection.reply = exchange.reply;
        operations_each = exchange.operations;
        if (pairs && i % 2 == 1) connection.request = set_for_waiter(i - 1);
        epoll.add(connection.fd, i);
    }
    std::vector<double> latencies;
    latencies.reserve(1 << 22);
    std::size_t done = 0;
    for (std::size_t i = 0; i < count; i += stride) {
        connections[i].sent = Clock::now();
        send_all(connections[i].fd, connections[i].request);
    }
    const auto warm =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(duration / 5));
    auto begin = Clock::now();
    double server_cpu = 0;
    double own_cpu = 0;
    bool counting = false;
    for (auto now = begin; !counting || seconds(now - begin) < duration;) {
        if (!counting && now >= warm) {
            counting = true;
            begin = now;
            server_cpu = cpu_seconds_of(server);
            own_cpu = own_cpu_seconds();
            done = 0;
            latencies.clear();
        }
        epoll.wait([&](std::size_t index) {
            Connection& connection = connections[index];
            connection.got += receive_some(connection.fd);
            if (connection.got < connection.reply) return;
            if (pairs && connection.got == connection.reply) {  // the wait behind it has been read
                const Connection& partner = connections[index + 1];
                send_all(partner.fd, partner.request);
                return;
            }
            connection.got = 0;
            ++done;
            const auto then = Clock::now();
            if (latencies.size() < latencies.capacity()) latencies.push_back(seconds(then - connection.sent));
            connection.sent = then;
            send_all(connection.fd, connection.request);
        });
        now = Clock::now();
    }
    const double taken = seconds(Clock::now() - begin);
    const auto operations = static_cast<double>(done * operations_each);
    std::ranges::sort(latencies);
    const auto at = [&](double share) {
        return latencies.empty()
                   ? 0.0
                   : 1e6 * latencies[static_cast<std::size_t>(share * static_cast<double>(latencies.size() - 1))];
    };
    std::cout << "{\"per_second\": " << operations / taken
              << ", \"server_cpu_us\": " << 1e6 * (cpu_seconds_of(server) - server_cpu) / operations
              << ", \"generator_cpu_us\": " << 1e6 * (own_cpu_seconds() - own_cpu) / operations
              << ", \"p50_us\": " << at(0.5) << ", \"p99_us\": " << at(0.99) << "}" << std::endl;
    return 0;
}

// Every client greets, counts itself and waits for one key, which the last then sets.
int storm(std::uint16_t port, const std::string& server, std::size_t count) {
    const std::string name = "/bench/go";
    const std::string_view key = name;
    const std::string worker = encoded({.operation = Op::add, .key = "init/", .number = 1});
    const std::string wait = encoded({.operation = Op::wait, .keys = {&key, 1}});
    const std::size_t before = resident_bytes(server);
    Epoll epoll;
    std::vector<Connection> connections(count);
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < count; ++i) {
        connections[i].fd = connect_to(port, i);
        send_all(connections[i].fd, greeting());
        epoll.add(connections[i].fd, i);
    }
    const double connected = seconds(Clock::now() - begin);
    // What each client reads at each stage, and sends after it; the last ends the storm.
    const std::array<std::size_t, 3> bytes{4, 8, 1};
    const std::array<std::string_view, 3> next{worker, wait, ""};
    std::vector<std::size_t> stages(count);
    std::array<std::size_t, 3> passed{};
    const auto until_all_passed = [&](std::size_t stage) {
        while (passed[stage] < count) {
            epoll.wait([&](std::size_t index) {
                Connection& connection = connections[index];
                connection.got += receive_some(connection.fd);
                for (std::size_t& at = stages[index]; at < bytes.size() && connection.got >= bytes[at];) {
                    connection.got -= bytes[at];
                    send_all(connection.fd, next[at]);
                    ++passed[at++];
                }
            });
        }
        return seconds(Clock::now() - begin);
    };
    const double greeted = until_all_passed(0);
    const double counted = until_all_passed(1);
    usleep(200'000);  // let the last waits arrive
    const std::size_t memory = resident_bytes(server) - before;
    const int setter = connect_to(port, count);
    send_all(setter, greeting());
    receive_exactly(setter, 4);
    const auto set = Clock::now();
    send_all(setter, encoded({.operation = Op::set, .key = name, .value = "1"}));
    until_all_passed(2);
    std::cout << "{\"connected_s\": " << connected << ", \"greeted_s\": " << greeted << ", \"counted_s\": " << counted
              << ", \"released_s\": " << seconds(Clock::now() - set) << ", \"bytes_per_connection\": " << memory / count
              << "}" << std::endl;
    return 0;
}

int million(std::uint16_t port, const std::string& server, std::size_t count) {
    const int fd = connect_to(port, 0);
    send_all(fd, greeting());
    receive_exactly(fd, 4);
    const std::size_t before = resident_bytes(server);
    const auto begin = Clock::now();
    std::string batch;
    for (std::size_t i = 0; i < count; ++i) {
        cpprun::encode_request({.operation = Op::set, .key = key_of(i), .value = "12345678"}, batch);
        if (batch.size() < (1U << 16U)) continue;
        send_all(fd, batch);
        batch.clear();
    }
    send_all(fd, batch + encoded({.operation = Op::number_of_keys}));
    receive_exactly(fd, 8);
    std::cout << "{\"seconds\": " << seconds(Clock::now() - begin)
              << ", \"bytes_per_key\": " << (resident_bytes(server) - before) / count << "}" << std::endl;
    return 0;
}

int shape(const std::string& mode) {
    if (mode == "storm") {
        const std::string name = "/bench/go";
        const std::string_view key = name;
        std::cout << "release " << greeting().size() << ":4 "
                  << encoded({.operation = Op::add, .key = "init/", .number = 1}).size() << ":8 "
                  << encoded({.operation = Op::wait, .keys = {&key, 1}}).size() << ":0" << std::endl;
        return 0;
    }
    const Exchange exchange = exchange_of(mode, 0);
    if (mode == "big") std::cout << "release ";
    if (mode == "wait_set") {
        std::cout << "pairs " << greeting().size() << ":4 " << exchange.request.size() << ":" << exchange.reply << " "
                  << set_for_waiter(0).size() << ":1" << std::endl;
        return 0;
    }
    std::cout << greeting().size() << ":4 ";
    if (!exchange.prepare.empty()) std::cout << exchange.prepare.size() << ":0 ";
    std::cout << exchange.request.size() << ":" << exchange.reply << std::endl;
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 3 && std::string(argv[1]) == "shape") return shape(argv[2]);
    if (argc != 6) return 2;
    const auto port = static_cast<std::uint16_t>(std::atoi(argv[1]));
    const std::string mode = argv[3];
    const auto count = static_cast<std::size_t>(std::atoll(argv[4]));
    if (mode == "storm") return storm(port, argv[2], count);
    if (mode == "million") return million(port, argv[2], count);
    return rounds(port, argv[2], mode, count, std::atof(argv[5]));
}
