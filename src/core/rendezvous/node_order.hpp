// SPDX-License-Identifier: BSD-3-Clause
// The order of nodes that a reader of host names expects: node2 before node10. torch orders by characters, so this one
// is for rounds that cpprun completes.
#pragma once

#include "core/rendezvous/rendezvous_state.hpp"

#include <compare>
#include <string_view>

namespace cpprun {

/// Runs of ASCII digits compare as numbers, all else by bytes, as in `sort -V`. Names that differ only in leading zeros
/// are told apart by their bytes, so that equal means the same text.
std::strong_ordering natural_order(std::string_view left, std::string_view right);

/// By address in natural order, then pid, then local id. Equal only for equal nodes.
std::strong_ordering natural_order(const NodeId& left, const NodeId& right);

/// For containers and algorithms.
struct NaturalLess {
    bool operator()(const NodeId& left, const NodeId& right) const { return std::is_lt(natural_order(left, right)); }
};

}  // namespace cpprun
