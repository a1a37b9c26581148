// SPDX-License-Identifier: BSD-3-Clause
// A connected TCP socket whose every call has a deadline on the steady clock.
#pragma once

#include "core/store/byte_buffer.hpp"
#include "runtime/store/address.hpp"
#include "runtime/store/socket_fd.hpp"
#include "runtime/store/store_failure.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

using SteadyTime = std::chrono::steady_clock::time_point;

/// `now + timeout`, at most the end of time.
SteadyTime deadline_after(std::chrono::milliseconds timeout);

/// A failed try to connect.
struct ConnectFailure {
    std::string message;
    bool final = false;  ///< trying again cannot help, e.g. the machine has no such address family
};
template <class T>
using ConnectResult = boost::outcome_v2::basic_result<T, ConnectFailure, boost::outcome_v2::policy::all_narrow>;

/// The addresses of `host`, numeric ones without asking anybody. A name is asked of the system's resolver in a thread
/// of its own, which is left to itself if there is no answer by the deadline: nothing can call off a look-up.
ConnectResult<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port, SteadyTime deadline);

class StreamSocket {
  public:
    /// Tries the addresses in turn, each with a share of the time that is left.
    static ConnectResult<StreamSocket> connect(const std::vector<SocketAddress>& addresses, SteadyTime deadline);

    /// Sends all of it.
    StoreResult<void> send(std::string_view bytes, SteadyTime deadline);
    /// Exactly `count` bytes. Memory grows as they arrive.
    StoreResult<std::string> receive(std::size_t count, SteadyTime deadline);
    /// True if something can be read before the deadline; an end of the connection counts.
    bool readable(SteadyTime deadline) const;

  private:
    explicit StreamSocket(SocketFd socket) : socket_(std::move(socket)) {}

    SocketFd socket_;
    ByteBuffer ahead_;  // received and not asked for yet
    std::size_t taken_ = 0;
};

}  // namespace cpprun
