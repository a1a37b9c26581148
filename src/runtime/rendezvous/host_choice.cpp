// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rendezvous/host_choice.hpp"

#include "runtime/rendezvous/name_lookup.hpp"

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <optional>
#include <strings.h>

namespace cpprun {
namespace {

using boost::asio::ip::address;

address without_scope(const address& given) {
    if (!given.is_v6()) return given;
    const auto v6 = given.to_v6();
    if (v6.is_v4_mapped()) return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, v6);
    return boost::asio::ip::address_v6(v6.to_bytes());
}

std::optional<address> numeric(const std::string& text) {
    boost::system::error_code error;
    const address found = boost::asio::ip::make_address(text, error);
    if (error) return std::nullopt;
    return without_scope(found);
}

std::vector<address> own_addresses() {
    std::vector<address> found;
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) return found;
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
        if (entry->ifa_addr->sa_family == AF_INET) {
            const auto* v4 = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
            found.emplace_back(boost::asio::ip::address_v4(ntohl(v4->sin_addr.s_addr)));
        } else if (entry->ifa_addr->sa_family == AF_INET6) {
            const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
            boost::asio::ip::address_v6::bytes_type bytes;
            std::copy_n(v6->sin6_addr.s6_addr, bytes.size(), bytes.begin());
            found.emplace_back(boost::asio::ip::address_v6(bytes));
        }
    }
    return found;
}

bool same_name(const std::string& left, const std::string& right) {
    return !left.empty() && left.size() == right.size() && ::strcasecmp(left.c_str(), right.c_str()) == 0;
}

std::string if_reachable(const address& own) {
    return own.is_loopback() || own.is_unspecified() ? std::string{} : own.to_string();
}

bool link_local(const address& given) {
    return given.is_v6() && given.to_v6().is_link_local();
}

}  // namespace

std::vector<std::string> interface_addresses() {
    std::vector<std::string> texts;
    for (const address& own : own_addresses()) texts.push_back(own.to_string());
    return texts;
}

boost::asio::awaitable<HostChoice> choose_host(boost::asio::any_io_executor executor, std::string endpoint_host,
                                               std::string own_name, std::chrono::milliseconds patience) {
    if (same_name(endpoint_host, "localhost")) co_return HostChoice{true, "the endpoint is localhost", {}};
    if (same_name(endpoint_host, own_name)) co_return HostChoice{true, "the endpoint is this machine's own name", {}};
    const std::vector<address> own = own_addresses();
    const auto ours = [&](const address& one) {
        return one.is_loopback() || one.is_unspecified() || std::find(own.begin(), own.end(), one) != own.end();
    };
    if (const auto given = numeric(endpoint_host)) {
        if (!ours(*given))
            co_return HostChoice{false, fmt::format("no interface here has the address {}", endpoint_host), {}};
        co_return HostChoice{true, "the endpoint is an address of this machine", if_reachable(*given)};
    }
    const auto found = co_await look_up(executor, endpoint_host, 0, std::chrono::steady_clock::now() + patience);
    if (!found) co_return HostChoice{false, found.error().message, {}};
    std::string addresses;
    for (const auto& endpoint : found.value()) {
        const address one = without_scope(endpoint.address());
        if (ours(one))
            co_return HostChoice{true, fmt::format("{} resolves to {}, which is here", endpoint_host, one.to_string()),
                                 if_reachable(one)};
        addresses += (addresses.empty() ? "" : ", ") + one.to_string();
    }
    co_return HostChoice{
        false, fmt::format("{} resolves to {}, which no interface here has", endpoint_host, addresses), {}};
}

std::string reachable_address(const std::string& towards_endpoint, const std::string& endpoint_host) {
    const auto towards = numeric(towards_endpoint);
    if (towards && !towards->is_loopback()) return towards_endpoint;
    const auto endpoint = numeric(endpoint_host);
    const bool local_job = same_name(endpoint_host, "localhost") || (endpoint && endpoint->is_loopback());
    if (!local_job) {
        for (const bool v4 : {true, false})
            for (const address& own : own_addresses())
                if (own.is_v4() == v4 && !own.is_loopback() && !link_local(own)) return own.to_string();
    }
    return towards ? towards_endpoint : "127.0.0.1";
}

}  // namespace cpprun
