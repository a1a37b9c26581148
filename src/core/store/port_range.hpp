// SPDX-License-Identifier: BSD-3-Clause
// The ports among which a listener may choose.
#pragma once

#include <cstdint>

namespace cpprun {

/// Tried in order, first and last included. One port stands for itself, and 0 for any that is free.
struct PortRange {
    std::uint16_t first = 0;
    std::uint16_t last = 0;

    PortRange() = default;
    PortRange(std::uint16_t port) : first(port), last(port) {}  // NOLINT(google-explicit-constructor)
    PortRange(std::uint16_t from, std::uint16_t to) : first(from), last(to) {}
    bool operator==(const PortRange&) const = default;
};

}  // namespace cpprun
