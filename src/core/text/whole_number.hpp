// SPDX-License-Identifier: BSD-3-Clause
// Whole numbers as programs write them: decimal, a minus sign where needed, nothing before or behind.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace cpprun {

/// None: something else stands there, or the number does not fit.
template <class Integer = std::int64_t>
std::optional<Integer> whole_number(std::string_view text) {
    Integer value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace cpprun
