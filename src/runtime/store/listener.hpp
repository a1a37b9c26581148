// SPDX-License-Identifier: BSD-3-Clause
// Where a store listens. Ports are bound first and asked for their number afterwards, never the other way round.
#pragma once

#include "core/error.hpp"
#include "core/store/port_range.hpp"
#include "runtime/store/socket_fd.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace cpprun {

enum class ListenScope {
    loopback,  ///< 127.0.0.1 and ::1, as far as the machine has them
    all,       ///< every address of the machine, IPv4 and IPv6
};

/// Bound sockets, not yet listening, all on the same port.
struct BoundSockets {
    std::vector<SocketFd> sockets;
    std::uint16_t port = 0;
};

/// Binds the scope's addresses, or exactly `addresses` (numeric) where there are any, to the first of `ports` that is
/// free on all of them. A family that the machine lacks is left out without a word as long as one is there. Address
/// reuse is on, so connections of a former server that are still closing do not stand in the way. Errors: a name or a
/// malformed address (usage), an address in use (names address, port and, where known, the process).
Result<BoundSockets> bind_sockets(ListenScope scope, PortRange ports, const std::vector<std::string>& addresses = {});

/// Whether somebody on this machine listens on `port` of all its addresses, or in a way that nobody else could. Does
/// not look for who it is, which takes as long as there are processes.
bool is_listened_on(std::uint16_t port);

/// Lets `socket` accept connections with the longest queue that the machine allows.
Result<void> start_listening(const SocketFd& socket);

/// A port held for another process: bound to every address with address reuse and not listening, so that PyTorch's own
/// server can still bind it and listen, while nobody is given it as a free port.
struct ReservedPort {
    SocketFd socket;
    std::uint16_t port = 0;
};

/// Reserves the first of `ports` that is free. Of a range of several, one that another process has reserved is passed
/// over; one port alone may be reserved by several.
Result<ReservedPort> reserve_port(PortRange ports = {});

}  // namespace cpprun
