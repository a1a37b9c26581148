// SPDX-License-Identifier: BSD-3-Clause
#include "cli/network_address.hpp"

#include <algorithm>
#include <charconv>

namespace cpprun {
namespace {

bool is_number(std::string_view text, int base, std::size_t digits_max, unsigned most) {
    if (text.empty() || text.size() > digits_max) return false;
    unsigned number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    return error == std::errc() && end == text.data() + text.size() && number <= most;
}

bool is_v4(std::string_view text) {
    for (int left = 3; left >= 0; --left) {
        const std::size_t dot = left > 0 ? text.find('.') : text.size();
        if (dot == std::string_view::npos) return false;
        const std::string_view part = text.substr(0, dot);
        if (!is_number(part, 10, 3, 255) || (part.size() > 1 && part.front() == '0')) return false;
        text.remove_prefix(std::min(dot + 1, text.size()));
    }
    return text.empty();
}

// How many groups of 16 bits a row of them holds; the last may be an IPv4 address, which is two. None: it is no row.
std::optional<int> groups(std::string_view text, bool may_end_in_v4) {
    if (text.empty()) return 0;
    int count = 0;
    for (bool more = true; more; ++count) {
        const std::size_t colon = std::min(text.find(':'), text.size());
        const std::string_view part = text.substr(0, colon);
        more = colon < text.size();
        if (!is_number(part, 16, 4, 0xffff)) {
            if (more || !may_end_in_v4 || !is_v4(part)) return std::nullopt;
            ++count;
        }
        text.remove_prefix(std::min(colon + 1, text.size()));
    }
    return count;
}

bool is_v6(std::string_view text) {
    const std::size_t gap = text.find("::");
    if (gap == std::string_view::npos) return groups(text, true) == 8;
    const auto before = groups(text.substr(0, gap), false);
    const auto after = groups(text.substr(gap + 2), true);
    return before && after && *before + *after < 8;
}

}  // namespace

std::optional<int> address_width(std::string_view text) {
    if (text.size() > 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
    if (is_v4(text)) return 32;
    const std::size_t percent = text.find('%');
    if (percent != std::string_view::npos && percent + 1 == text.size()) return std::nullopt;
    if (is_v6(text.substr(0, percent))) return 128;
    return std::nullopt;
}

bool is_network(std::string_view text) {
    const std::size_t slash = text.find('/');
    const auto width = address_width(text.substr(0, slash));
    if (!width || slash == std::string_view::npos) return width.has_value();
    return is_number(text.substr(slash + 1), 10, 3, static_cast<unsigned>(*width));
}

}  // namespace cpprun
