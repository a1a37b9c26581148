// SPDX-License-Identifier: BSD-3-Clause
// Addresses of a host, without ever waiting for a resolver longer than one wants to.
#pragma once

#include "core/error.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace cpprun {

/// A numeric address asks nobody. A name is asked of the system's resolver on a thread that is left behind if it does
/// not answer before the deadline: nothing can stop it. Errors: the name does not resolve, or not in time.
boost::asio::awaitable<Result<std::vector<boost::asio::ip::tcp::endpoint>>> look_up(
    boost::asio::any_io_executor executor, std::string host, std::uint16_t port,
    std::chrono::steady_clock::time_point deadline);

}  // namespace cpprun
