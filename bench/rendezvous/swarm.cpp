// SPDX-License-Identifier: BSD-3-Clause
// rendezvous_swarm NODES [restart] [plain]: as many agents as given, each with its own connections to one real host,
// form a round; the host is a process of its own. Prints the seconds from the first agent's start to the last one's
// place, and what the host's process used. `restart`: one node asks for another round, which is measured too. `plain`:
// the host is a store that leads nobody, so that every agent changes the state by itself, as among torchrun's agents.
#include "runtime/diagnostics.hpp"
#include "runtime/os/descriptor_limit.hpp"
#include "runtime/rendezvous/c10d_meeting.hpp"
#include "runtime/store/store_host.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace cpprun;
using Clock = std::chrono::steady_clock;

LaunchConfig config_for(int nodes, std::uint16_t port) {
    LaunchConfig config;
    config.rendezvous.kind = RendezvousKind::c10d;
    config.rendezvous.run_id = "swarm";
    config.rendezvous.host = "127.0.0.1";
    config.rendezvous.port = port;
    config.rendezvous.endpoint = fmt::format("127.0.0.1:{}", port);
    config.rendezvous.endpoint_given = true;
    config.rendezvous.min_nodes = nodes;
    config.rendezvous.max_nodes = nodes;
    config.store.bind = "127.0.0.1";
    return config;
}

HostFacts facts_for(int number) {
    HostFacts facts;
    facts.host_name = fmt::format("node{}", number);
    facts.pid = 100'000 + number;
    return facts;
}

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What the host's store says: at its end, how many requests there were.
void tell(int nodes, const std::string& line) {
    fmt::print("{} host's {}\n", nodes, line);
    std::fflush(stdout);
}

/// The host's process: serves until it is told to end by its standard input.
int serve(int nodes, std::uint16_t port) {
    boost::asio::io_context io(1);
    LaunchConfig config = config_for(nodes, port);
    config.rendezvous.conf["is_host"] = "1";
    const HostFacts facts = facts_for(0);
    boost::asio::signal_set end(io, SIGTERM);
    end.async_wait([&io](const boost::system::error_code& /*error*/, int /*signo*/) { io.stop(); });
    C10dMeeting host(config, facts, io.get_executor(),
                     [nodes](StoreLogLevel, const std::string& line) { tell(nodes, line); });
    host.attach([&](AgentEvent event) {
        if (std::holds_alternative<MembershipChanged>(event)) host.join(JoinRound{});
    });
    host.join(JoinRound{});
    io.run();
    return 0;
}

/// A store that no agent hosts, as torchrun's is to cpprun's agents.
int serve_plain(int nodes, std::uint16_t port) {
    ListenSpec spec;
    spec.port = port;
    spec.bind_addresses = {"127.0.0.1"};
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_BLOCK, &end, nullptr);
    const auto store = StoreHost::start(spec, [nodes](StoreLogLevel, const std::string& line) { tell(nodes, line); });
    if (!store) {
        fmt::print(stderr, "swarm: {}\n", store.error().message);
        return 1;
    }
    int signo = 0;
    ::sigwait(&end, &signo);
    return 0;
}

int swarm(int nodes, std::uint16_t port, bool restart, bool plain) {
    const int led = plain ? nodes : nodes - 1;
    boost::asio::io_context io(1);
    std::vector<LaunchConfig> configs(static_cast<std::size_t>(nodes), config_for(nodes, port));
    std::vector<HostFacts> facts;
    for (int number = 0; number < nodes; ++number) facts.push_back(facts_for(number));
    std::vector<std::unique_ptr<C10dMeeting>> agents;
    int placed = 0;
    bool second = false;
    const Clock::time_point began = Clock::now();
    Clock::time_point restarted;
    for (int number = nodes - led; number < nodes; ++number) {
        const auto index = static_cast<std::size_t>(number);
        configs[index].rendezvous.conf["is_host"] = "0";
        agents.push_back(std::make_unique<C10dMeeting>(configs[index], facts[index], io.get_executor(), StoreLog{}));
        C10dMeeting* agent = agents.back().get();
        agent->attach([&, agent](AgentEvent event) {
            if (const auto* failed = std::get_if<JoinFailed>(&event)) {
                fmt::print(stderr, "swarm: {}\n", failed->error.message);
                io.stop();
            } else if (std::holds_alternative<MembershipChanged>(event)) {
                boost::asio::post(io, [agent] { agent->join(JoinRound{}); });
            } else if (std::holds_alternative<RoundReady>(event) && ++placed == led) {
                fmt::print("{} {}: {:.3f} s\n", nodes, second ? "restart" : "first round",
                           seconds_since(second ? restarted : began));
                std::fflush(stdout);
                if (second || !restart) {
                    io.stop();
                    return;
                }
                second = true;
                placed = 0;
                restarted = Clock::now();
                agents.front()->join(JoinRound{0, JoinRound::Cause::failure});
            }
        });
    }
    for (const auto& agent : agents) agent->join(JoinRound{});
    io.run();
    return placed == led ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const int nodes = argc > 1 ? std::atoi(argv[1]) : 100;
    bool restart = false;
    bool plain = false;
    for (int i = 2; i < argc; ++i) {
        restart = restart || std::strcmp(argv[i], "restart") == 0;
        plain = plain || std::strcmp(argv[i], "plain") == 0;
    }
    const auto port = static_cast<std::uint16_t>(20'000 + ::getpid() % 10'000);
    set_log_level(std::getenv("LOGLEVEL") == nullptr ? "ERROR" : std::getenv("LOGLEVEL"));
    raise_descriptor_limit();
    const pid_t host = ::fork();
    if (host == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (host == 0) return plain ? serve_plain(nodes, port) : serve(nodes, port);
    const int status = swarm(nodes, port, restart, plain);
    ::kill(host, SIGTERM);
    rusage used{};
    int ended = 0;
    ::wait4(host, &ended, 0, &used);
    rusage own{};
    ::getrusage(RUSAGE_SELF, &own);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    fmt::print("{} host: {:.2f} s of processor, {} MB; agents: {:.2f} s\n", nodes,
               seconds(used.ru_utime) + seconds(used.ru_stime), used.ru_maxrss / 1024,
               seconds(own.ru_utime) + seconds(own.ru_stime));
    return status;
}
