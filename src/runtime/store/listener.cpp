// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/store/listener.hpp"

#include "core/error.hpp"
#include "runtime/store/address.hpp"
#include "runtime/store/port_owner.hpp"

#include <cerrno>
#include <climits>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <sys/socket.h>

namespace cpprun {
namespace {

// Enough to find one that two families have free, even where a job has most of the range.
constexpr int free_port_tries = 128;

struct Place {
    SocketAddress address;
    bool both_families = false;  // an IPv6 socket that takes IPv4 as well
    bool optional = false;       // left out without a word where the machine lacks the family or the address
};

bool is_lacking(int error) {
    return error == EAFNOSUPPORT || error == EADDRNOTAVAIL || error == EPROTONOSUPPORT || error == EPFNOSUPPORT;
}

// Accepted sockets inherit all of these, so that a connection costs no further call.
void prepare(int fd, const Place& place) {
    constexpr int idle_seconds = 60;
    constexpr int interval_seconds = 15;
    constexpr int probes = 6;
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_seconds);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval_seconds);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, probes);
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (place.address.family() == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, place.both_families ? 0 : 1);
}

enum class Sharing { by_reuse, alone };

// Returns 0 or errno.
int bind_one(const Place& place, std::uint16_t port, SocketFd& bound, Sharing sharing = Sharing::by_reuse) {
    SocketFd fd(socket(place.address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return errno;
    prepare(fd.get(), place);
    if (sharing == Sharing::alone) set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 0);
    SocketAddress address = place.address;
    address.set_port(port);
    if (bind(fd.get(), address.data(), address.length) != 0) return errno;
    // Reuse counts when the next one binds, whenever it was set.
    if (sharing == Sharing::alone) set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    bound = std::move(fd);
    return 0;
}

Error bind_error(const Place& place, std::uint16_t port, int error) {
    SocketAddress address = place.address;
    address.set_port(port);
    const std::string where = port == 0 ? address_text(address) : endpoint_text(address);
    if (error == EADDRNOTAVAIL) {
        return failure("cannot listen on " + where + ": " + error_text(error), "this machine has no such address");
    }
    if (error != EADDRINUSE) return failure("cannot listen on " + where + ": " + error_text(error));
    const std::string owner = port == 0 ? std::string() : port_owner(port);
    return failure("cannot listen on " + where + ": address already in use" + (owner.empty() ? "" : " " + owner),
                   "choose another port, or 0 for any free one");
}

// Port 0 takes what the first place is given. None: the port is taken, and another may be tried: for 0 in a later
// place, with `one_of_many` in any.
Result<std::optional<BoundSockets>> bind_all(const std::vector<Place>& places, std::uint16_t port, bool one_of_many,
                                             Sharing sharing) {
    BoundSockets bound;
    bound.port = port;
    int lacking = 0;
    for (const Place& place : places) {
        SocketFd fd;
        const int error = bind_one(place, bound.port, fd, sharing);
        if (error == EADDRINUSE && (one_of_many || (port == 0 && !bound.sockets.empty())))
            return std::optional<BoundSockets>();
        if (place.optional && is_lacking(error)) {
            lacking = error;
            continue;
        }
        if (error != 0) return bind_error(place, bound.port, error);
        bound.port = local_address(fd.get()).port();
        bound.sockets.push_back(std::move(fd));
    }
    if (bound.sockets.empty()) return bind_error(places.front(), port, lacking);
    return std::optional(std::move(bound));
}

Result<std::vector<Place>> places_of(const std::vector<std::string>& addresses) {
    std::vector<Place> places;
    for (const std::string& text : addresses) {
        BOOST_OUTCOME_TRY(const auto address, parse_address(text, 0));
        places.push_back({address, false, false});
    }
    return places;
}

Place place(const char* address, bool both_families) {
    return {parse_address(address, 0).value(), both_families, true};
}

Result<BoundSockets> bind_places(const std::vector<Place>& places, PortRange ports,
                                 Sharing sharing = Sharing::by_reuse) {
    const int tries = ports.first == ports.last ? free_port_tries : ports.last - ports.first + 1;
    for (int i = 0; i < tries; ++i) {
        const bool one_of_many = ports.first != ports.last;
        const auto port = static_cast<std::uint16_t>(ports.first + (one_of_many ? i : 0));
        BOOST_OUTCOME_TRY(auto bound, bind_all(places, port, one_of_many, sharing));
        if (bound) return std::move(*bound);
    }
    if (ports.first == ports.last) return failure("no port is free on all addresses to listen on", "name one");
    return failure("no port from " + std::to_string(ports.first) + " to " + std::to_string(ports.last) +
                       " is free to listen on, at " + address_text(places.front().address),
                   "end what holds them, or give more ports");
}

std::vector<Place> everywhere() {
    // Where IPv6 is switched off, [::] can often be bound all the same and takes IPv4; without the family it cannot.
    SocketFd probe(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return {probe.valid() ? place("::", true) : place("0.0.0.0", false)};
}

}  // namespace

Result<BoundSockets> bind_sockets(ListenScope scope, PortRange ports, const std::vector<std::string>& addresses) {
    if (!addresses.empty()) {
        BOOST_OUTCOME_TRY(const auto places, places_of(addresses));
        return bind_places(places, ports);
    }
    if (scope == ListenScope::loopback) return bind_places({place("127.0.0.1", false), place("::1", false)}, ports);
    return bind_places(everywhere(), ports);
}

bool is_listened_on(std::uint16_t port) {
    for (const Place& all : {place("::", true), place("0.0.0.0", false)}) {
        SocketFd unused;
        if (bind_one(all, port, unused) == EADDRINUSE) return true;
    }
    return false;
}

Result<void> start_listening(const SocketFd& socket) {
    // The kernel cuts the queue down to net.core.somaxconn.
    if (listen(socket.get(), INT_MAX) == 0) return boost::outcome_v2::success();
    const int error = errno;
    const SocketAddress address = local_address(socket.get());
    const std::string owner = error == EADDRINUSE ? port_owner(address.port()) : std::string();
    return failure("cannot listen on " + endpoint_text(address) + ": " +
                       (error == EADDRINUSE ? "address already in use" : error_text(error)) +
                       (owner.empty() ? "" : " " + owner),
                   error == EADDRINUSE ? "choose another port, or 0 for any free one" : "");
}

Result<ReservedPort> reserve_port(PortRange ports) {
    const Sharing sharing = ports.first == ports.last ? Sharing::by_reuse : Sharing::alone;
    BOOST_OUTCOME_TRY(auto bound, bind_places(everywhere(), ports, sharing));
    return ReservedPort{std::move(bound.sockets.front()), bound.port};
}

}  // namespace cpprun
