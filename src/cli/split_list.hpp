// SPDX-License-Identifier: BSD-3-Clause
// Lists between commas, as many options take them.
#pragma once

#include <string_view>
#include <vector>

namespace cpprun {

/// The parts of `text` between commas, empty ones included; at least one. They point into `text`.
inline std::vector<std::string_view> split_at_commas(std::string_view text) {
    std::vector<std::string_view> parts;
    for (std::size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
        parts.push_back(text.substr(0, comma));
        text.remove_prefix(comma + 1);
    }
    parts.push_back(text);
    return parts;
}

}  // namespace cpprun
