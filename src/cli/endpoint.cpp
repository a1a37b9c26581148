// SPDX-License-Identifier: BSD-3-Clause
#include "cli/endpoint.hpp"

#include "core/text/digits.hpp"
#include "core/text/python_number.hpp"

#include <algorithm>

namespace cpprun {
namespace {

bool is_hex(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// The text before the next `separator`; takes both off `rest`. `more` says whether a separator was there.
std::string_view take_part(std::string_view& rest, char separator, bool& more) {
    const std::size_t end = std::min(rest.find(separator), rest.size());
    const std::string_view part = rest.substr(0, end);
    more = end < rest.size();
    rest.remove_prefix(more ? end + 1 : end);
    return part;
}

bool is_ipv4_address(std::string_view text) {
    int parts = 0;
    for (bool more = true; more; ++parts) {
        const std::string_view part = take_part(text, '.', more);
        if (part.empty() || part.size() > 3 || !std::all_of(part.begin(), part.end(), is_digit)) return false;
        if (part.size() > 1 && part.front() == '0') return false;
        if (parse_python_int(part).value_or(256) > 255) return false;
    }
    return parts == 4;
}

bool is_hex_group(std::string_view text) {
    return !text.empty() && text.size() <= 4 && std::all_of(text.begin(), text.end(), is_hex);
}

/// Number of 16-bit groups in a colon-separated list without "::"; -1 if it is none. An IPv4 tail counts two.
int count_groups(std::string_view text, bool ipv4_tail_allowed) {
    if (text.empty()) return 0;
    int groups = 0;
    for (bool more = true; more;) {
        const std::string_view group = take_part(text, ':', more);
        if (!more && ipv4_tail_allowed && is_ipv4_address(group)) {
            groups += 2;
        } else if (is_hex_group(group)) {
            groups += 1;
        } else {
            return -1;
        }
    }
    return groups;
}

/// Letters, digits, "_", ".", ":", "-" (what torchrun lets pass), "%" of a scope id, and bytes beyond ASCII.
bool is_host_character(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-' ||
           static_cast<unsigned char>(c) >= 0x80;
}

bool is_host(std::string_view host) {
    return is_ipv6_address(host) || (!host.empty() && std::all_of(host.begin(), host.end(), is_host_character));
}

bool read_port(std::string_view text, std::optional<std::uint16_t>& port) {
    if (text.empty() || text.size() > 5 || !std::all_of(text.begin(), text.end(), is_digit)) return false;
    const std::int64_t number = parse_python_int(text).value_or(-1);
    if (number < 0 || number > 65535) return false;
    port = static_cast<std::uint16_t>(number);
    return true;
}

/// Host and port texts; the port text is absent without a separating colon.
struct Split {
    std::string_view host;
    std::optional<std::string_view> port;
};

Split split_endpoint(std::string_view text) {
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == text.size() - 1) return {text.substr(1, close - 1), std::nullopt};
        if (close != std::string_view::npos && text[close + 1] == ':')
            return {text.substr(1, close - 1), text.substr(close + 2)};
        return {text, std::nullopt};
    }
    const std::size_t last = text.rfind(':');
    if (last == std::string_view::npos) return {text, std::nullopt};
    const std::string_view before = text.substr(0, last);
    const std::string_view after = text.substr(last + 1);
    const bool port_follows = is_ipv6_address(before) && std::all_of(after.begin(), after.end(), is_digit);
    if (is_ipv6_address(text) && !port_follows) return {text, std::nullopt};
    return {before, after};
}

}  // namespace

bool is_ipv6_address(std::string_view text) {
    if (const std::size_t percent = text.find('%'); percent != std::string_view::npos) {
        const std::string_view scope = text.substr(percent + 1);
        if (scope.empty() || !std::all_of(scope.begin(), scope.end(), is_host_character)) return false;
        text = text.substr(0, percent);
    }
    const std::size_t gap = text.find("::");
    if (gap == std::string_view::npos) return count_groups(text, true) == 8;
    const int before = count_groups(text.substr(0, gap), false);
    const int after = count_groups(text.substr(gap + 2), true);
    return before >= 0 && after >= 0 && before + after <= 7;
}

Endpoint parse_endpoint(std::string_view text) {
    const Split split = split_endpoint(strip_blanks(text));
    Endpoint endpoint{std::string(split.host), std::nullopt, {}};
    if (split.port && !read_port(*split.port, endpoint.port)) {
        endpoint.problem = "the port number must be an integer between 0 and 65535";
    } else if (!is_host(split.host)) {
        endpoint.problem = "the hostname must be a dot-separated list of labels, an IPv4 address, or an IPv6 address";
    }
    return endpoint;
}

}  // namespace cpprun
