// SPDX-License-Identifier: BSD-3-Clause
// Where workers send their heartbeats: a datagram socket for each of them, named in CPPRUN_HEARTBEAT_SOCKET. What is in
// a datagram does not matter, and which socket it comes to says whose it is: the names are in a folder that only this
// user may enter, and have an unguessable part that each worker is told of its own.
#pragma once

#include "core/error.hpp"
#include "core/host_facts.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/datagram_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cpprun {

class Heartbeats {
  public:
    /// `beat(local_rank)` is called on `io`'s thread; many datagrams at once are one beat.
    Heartbeats(boost::asio::io_context& io, const Environment& environment, std::function<void(int)> beat);
    /// As end_attempt().
    ~Heartbeats();
    Heartbeats(const Heartbeats&) = delete;
    Heartbeats& operator=(const Heartbeats&) = delete;

    /// Makes fresh sockets for `workers` workers; what earlier ones still send is not heard.
    Result<void> begin_attempt(int workers);
    /// Closes and removes them.
    void end_attempt();

    /// The name of a worker's socket; empty: there is none.
    std::string path(int local_rank) const;

  private:
    struct Listener;
    void listen(const std::shared_ptr<Listener>& listener);

    boost::asio::io_context& io_;
    std::string base_;
    std::function<void(int)> beat_;
    std::string folder_;
    std::vector<std::shared_ptr<Listener>> listeners_;
};

}  // namespace cpprun
