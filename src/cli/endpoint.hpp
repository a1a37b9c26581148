// SPDX-License-Identifier: BSD-3-Clause
// Reading a rendezvous endpoint (contract 2.5, user case B09).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

/// An endpoint taken apart. `problem` is empty, or says what is wrong in words that fit behind the value.
struct Endpoint {
    std::string host;  ///< without brackets; may carry an IPv6 scope id ("fe80::1%eth0")
    std::optional<std::uint16_t> port;
    std::string problem;
};

/// Reads HOST, HOST:PORT, IPv4 alike, [IPV6], [IPV6]:PORT, and IPv6 without brackets: of several colons the last one
/// separates a port when what stands before it is an IPv6 address by itself and digits follow ("::1:29500"), else the
/// text is an address without a port ("::1", "::ffff:10.0.0.1"). Blanks around it are ignored. The port is 0 to 65535,
/// in one to five digits.
Endpoint parse_endpoint(std::string_view text);

/// Whether `text` is an IPv6 address in text form (RFC 4291 section 2.2), with or without a scope id (RFC 4007).
bool is_ipv6_address(std::string_view text);

}  // namespace cpprun
