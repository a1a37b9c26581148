// SPDX-License-Identifier: BSD-3-Clause
// Numeric addresses: reading them, writing them, comparing them. No name service is asked anywhere here.
#pragma once

#include "core/error.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace cpprun {

/// An IPv4 or IPv6 address with a port, as the socket calls want it.
struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t length = 0;

    int family() const { return storage.ss_family; }
    std::uint16_t port() const;
    void set_port(std::uint16_t port);
    const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// "127.0.0.1", "::1", "[::1]" or "fe80::1%eth0" with a port. A name is an error of kind usage.
Result<SocketAddress> parse_address(std::string_view text, std::uint16_t port);

/// The address without the port; an IPv4 address inside IPv6 is written as IPv4.
std::string address_text(const SocketAddress& address);
/// "127.0.0.1:29500" or "[::1]:29500".
std::string endpoint_text(const SocketAddress& address);

/// True for 127.0.0.0/8 and ::1, also inside IPv6.
bool is_loopback(const SocketAddress& address);
/// Equal but for the port; IPv4 inside IPv6 equals plain IPv4.
bool same_host(const SocketAddress& a, const SocketAddress& b);

/// A range of addresses, as in "10.0.0.0/8".
class Cidr {
  public:
    /// "10.0.0.0/8", "fd00::/8", or one address. Anything else is an error of kind usage.
    static Result<Cidr> parse(std::string_view text);
    bool contains(const SocketAddress& address) const;

  private:
    std::array<std::uint8_t, 16> bytes_{};  // IPv4 is kept inside IPv6
    unsigned bits_ = 0;
};

/// The address that this end of a connected socket has; of family 0 if the kernel does not say.
SocketAddress local_address(int fd);

}  // namespace cpprun
