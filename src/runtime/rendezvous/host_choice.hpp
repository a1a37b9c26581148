// SPDX-License-Identifier: BSD-3-Clause
// Whether this machine is the one that an endpoint names, and by which address others reach it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace cpprun {

/// Numeric addresses of all interfaces of this machine, loopback included, without scope.
std::vector<std::string> interface_addresses();

struct HostChoice {
    bool is_host = false;
    std::string reason;   ///< goes on after "this node is (not) the host because "
    std::string address;  ///< the address of ours that the endpoint stands for, where it is one that others can reach
};

/// By address, not by name: an alias, a second interface and another spelling count. A name that does not resolve yet
/// belongs to another machine for all that is known.
boost::asio::awaitable<HostChoice> choose_host(boost::asio::any_io_executor executor, std::string endpoint_host,
                                               std::string own_name, std::chrono::milliseconds patience);

/// An address of this machine that peers reach: `towards_endpoint`, the address that our connection to the endpoint
/// has, unless that is loopback and the endpoint is not; then that of the first other interface. Loopback only where
/// nothing else is there, or the endpoint itself is loopback.
std::string reachable_address(const std::string& towards_endpoint, const std::string& endpoint_host);

}  // namespace cpprun
