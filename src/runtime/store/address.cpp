// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/store/address.hpp"

#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <net/if.h>
#include <netinet/in.h>

namespace cpprun {
namespace {

using Bytes16 = std::array<std::uint8_t, 16>;

const sockaddr_in* as_v4(const SocketAddress& address) {
    return reinterpret_cast<const sockaddr_in*>(&address.storage);
}

const sockaddr_in6* as_v6(const SocketAddress& address) {
    return reinterpret_cast<const sockaddr_in6*>(&address.storage);
}

Bytes16 mapped_bytes(const SocketAddress& address) {
    Bytes16 bytes{};
    if (address.family() == AF_INET) {
        bytes[10] = bytes[11] = 0xff;
        std::memcpy(&bytes[12], &as_v4(address)->sin_addr, 4);
    } else if (address.family() == AF_INET6) {
        std::memcpy(bytes.data(), &as_v6(address)->sin6_addr, 16);
    }
    return bytes;
}

bool is_mapped(const Bytes16& bytes) {
    for (std::size_t i = 0; i < 10; ++i) {
        if (bytes[i] != 0) return false;
    }
    return bytes[10] == 0xff && bytes[11] == 0xff;
}

bool same_prefix(const Bytes16& a, const Bytes16& b, unsigned bits) {
    const unsigned whole = bits / 8;
    if (std::memcmp(a.data(), b.data(), whole) != 0) return false;
    if (bits % 8 == 0) return true;
    const auto mask = static_cast<std::uint8_t>(0xffU << (8 - bits % 8));
    return (a[whole] & mask) == (b[whole] & mask);
}

}  // namespace

std::uint16_t SocketAddress::port() const {
    if (family() == AF_INET) return ntohs(as_v4(*this)->sin_port);
    return family() == AF_INET6 ? ntohs(as_v6(*this)->sin6_port) : std::uint16_t{0};
}

void SocketAddress::set_port(std::uint16_t port) {
    if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
    if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
}

Result<SocketAddress> parse_address(std::string_view text, std::uint16_t port) {
    std::string plain(text);
    if (plain.size() > 2 && plain.front() == '[' && plain.back() == ']') plain = plain.substr(1, plain.size() - 2);
    SocketAddress address;
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    if (inet_pton(AF_INET, plain.c_str(), &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        address.length = sizeof(sockaddr_in);
        return address;
    }
    std::string scope;
    if (const auto percent = plain.find('%'); percent != std::string::npos) {
        scope = plain.substr(percent + 1);
        plain.resize(percent);
    }
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    if (inet_pton(AF_INET6, plain.c_str(), &v6->sin6_addr) != 1) {
        return usage_error("'" + std::string(text) + "' is no IPv4 or IPv6 address",
                           "names are not looked up here; write the number");
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    if (!scope.empty()) v6->sin6_scope_id = if_nametoindex(scope.c_str());
    if (!scope.empty() && v6->sin6_scope_id == 0) {
        return usage_error("'" + std::string(text) + "' names no network interface of this machine after '%'");
    }
    address.length = sizeof(sockaddr_in6);
    return address;
}

std::string address_text(const SocketAddress& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const Bytes16 bytes = mapped_bytes(address);
    if (is_mapped(bytes)) return inet_ntop(AF_INET, &bytes[12], text.data(), text.size());
    if (address.family() != AF_INET6) return "?";
    return inet_ntop(AF_INET6, bytes.data(), text.data(), text.size());
}

std::string endpoint_text(const SocketAddress& address) {
    const std::string host = address_text(address);
    const bool brackets = host.find(':') != std::string::npos;
    return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(address.port());
}

bool is_loopback(const SocketAddress& address) {
    const Bytes16 bytes = mapped_bytes(address);
    if (is_mapped(bytes)) return bytes[12] == 127;
    return same_prefix(bytes, Bytes16{}, 120) && bytes[15] == 1;
}

bool same_host(const SocketAddress& a, const SocketAddress& b) {
    return a.family() != 0 && b.family() != 0 && mapped_bytes(a) == mapped_bytes(b);
}

Result<Cidr> Cidr::parse(std::string_view text) {
    const auto slash = text.find('/');
    const auto address = parse_address(text.substr(0, slash), 0);
    if (!address) {
        return usage_error("'" + std::string(text) + "' is no range of addresses",
                           "for example 10.0.0.0/8 or fd00::/8");
    }
    const unsigned width = address.value().family() == AF_INET ? 32 : 128;
    unsigned bits = width;
    if (slash != std::string_view::npos) {
        const std::string_view length = text.substr(slash + 1);
        const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bits);
        if (error != std::errc() || end != length.data() + length.size() || bits > width) {
            return usage_error("'" + std::string(text) + "' has no prefix length from 0 to " + std::to_string(width));
        }
    }
    Cidr range;
    range.bytes_ = mapped_bytes(address.value());
    range.bits_ = bits + (128 - width);
    return range;
}

bool Cidr::contains(const SocketAddress& address) const {
    return address.family() != 0 && same_prefix(bytes_, mapped_bytes(address), bits_);
}

SocketAddress local_address(int fd) {
    SocketAddress address;
    address.length = sizeof address.storage;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) return {};
    return address;
}

}  // namespace cpprun
