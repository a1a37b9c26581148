// SPDX-License-Identifier: BSD-3-Clause
// A store for tests in other languages. Arguments: [loopback|all|reserve] [port] [connections_max] [allowed range]...;
// with "reserve" it only holds a port. Prints its port; then one command on each line of its input: "reset" and "stats"
// are answered with one line, "quit" or the end of the input ends it.
// Or a client: "connect" HOST PORT MILLISECONDS counts "n" up and prints it, or why that failed.
#include "runtime/store/store_host.hpp"
#include "runtime/store/tcp_store_client.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

namespace {

int visit(const std::string& host, int port, int milliseconds) {
    auto client = cpprun::TcpStoreClient::connect(
        {.host = host,
         .port = static_cast<std::uint16_t>(port),
         .connect_timeout = std::chrono::milliseconds(milliseconds),
         .on_retry = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }});
    if (!client) {
        std::cout << client.error().message << std::endl;
        return 1;
    }
    std::cout << client.value()->add("n", 1).value() << std::endl;
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string(argv[1]) == "reserve") {
        const auto reserved = cpprun::reserve_port();
        if (!reserved) return 1;
        std::cout << reserved.value().port << std::endl;
        return static_cast<int>(std::cin.get() == 'x');
    }
    if (argc > 4 && std::string(argv[1]) == "connect") return visit(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
    cpprun::ListenSpec spec;
    if (argc > 1 && std::string(argv[1]) == "all") spec.scope = cpprun::ListenScope::all;
    if (argc > 2) spec.port = static_cast<std::uint16_t>(std::atoi(argv[2]));
    if (argc > 3) spec.connections_max = static_cast<std::size_t>(std::atoi(argv[3]));
    for (int i = 4; i < argc; ++i) spec.allow_cidrs.emplace_back(argv[i]);
    // Not a C++ stream: with no descriptor left, the undefined-behaviour sanitizer cannot check a virtual call.
    const auto log = [](cpprun::StoreLogLevel level, const std::string& line) {
        if (level != cpprun::StoreLogLevel::debug) std::fprintf(stderr, "%s\n", line.c_str());
    };
    const auto host = cpprun::StoreHost::start(spec, log);
    if (!host) {
        std::cerr << host.error().message << std::endl;
        return 1;
    }
    std::cout << host.value()->port() << std::endl;
    for (std::string line; std::getline(std::cin, line) && line != "quit";) {
        if (line == "reset") {
            host.value()->reset();
            std::cout << "done" << std::endl;
        } else if (line == "stats") {
            const auto statistics = host.value()->statistics();
            std::cout << statistics.connections << ' ' << statistics.keys << ' ' << statistics.memory_bytes
                      << std::endl;
        }
    }
    return 0;
}
