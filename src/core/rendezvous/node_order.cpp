// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/node_order.hpp"

#include "core/text/digits.hpp"

#include <algorithm>

namespace cpprun {
namespace {

// The number that `text` begins with, without leading zeros; both are taken off.
std::string_view take_number(std::string_view& text) {
    const std::size_t zeros = std::min(text.find_first_not_of('0'), text.size());
    text.remove_prefix(zeros);
    const auto end = static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
    const std::string_view number = text.substr(0, end);
    text.remove_prefix(end);
    return number;
}

std::strong_ordering by_parts(std::string_view left, std::string_view right) {
    while (!left.empty() && !right.empty()) {
        if (is_digit(left.front()) && is_digit(right.front())) {
            const std::string_view left_number = take_number(left);
            const std::string_view right_number = take_number(right);
            if (const auto order = left_number.size() <=> right_number.size(); std::is_neq(order)) return order;
            if (const auto order = left_number <=> right_number; std::is_neq(order)) return order;
            continue;
        }
        // A number stands where its digits stand among the characters, so that the order has no circle.
        const auto order = static_cast<unsigned char>(left.front()) <=> static_cast<unsigned char>(right.front());
        if (std::is_neq(order)) return order;
        left.remove_prefix(1);
        right.remove_prefix(1);
    }
    return left.size() <=> right.size();
}

}  // namespace

std::strong_ordering natural_order(std::string_view left, std::string_view right) {
    if (const auto order = by_parts(left, right); std::is_neq(order)) return order;
    return left <=> right;
}

std::strong_ordering natural_order(const NodeId& left, const NodeId& right) {
    if (const auto order = natural_order(left.addr, right.addr); std::is_neq(order)) return order;
    if (const auto order = left.pid <=> right.pid; std::is_neq(order)) return order;
    return left.local_id <=> right.local_id;
}

}  // namespace cpprun
