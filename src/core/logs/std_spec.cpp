// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/std_spec.hpp"

#include "core/text/whole_number.hpp"

#include <optional>
#include <utility>

namespace cpprun {
namespace {

std::optional<Std> parse_choice(std::string_view text) {
    if (text.size() != 1 || text[0] < '0' || text[0] > '3') return std::nullopt;
    return static_cast<Std>(text[0] - '0');
}

std::optional<int> parse_rank(std::string_view text) {
    const bool leading_zero = text.size() > 1 && text[0] == '0';
    if (text.empty() || text[0] < '0' || text[0] > '9' || leading_zero) return std::nullopt;
    return whole_number<int>(text);
}

std::optional<std::pair<int, Std>> parse_entry(std::string_view text) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto rank = parse_rank(text.substr(0, colon));
    const auto choice = parse_choice(text.substr(colon + 1));
    if (!rank || !choice) return std::nullopt;
    return std::pair{*rank, *choice};
}

std::optional<std::map<int, Std>> parse_map(std::string_view text) {
    std::map<int, Std> by_rank;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const auto entry = parse_entry(text.substr(begin, end - begin));
        if (!entry) return std::nullopt;
        by_rank[entry->first] = entry->second;
        begin = end + 1;
    }
    return by_rank;
}

}  // namespace

Result<StdSpec> parse_std_spec(std::string_view option_name, std::string_view text) {
    if (const auto choice = parse_choice(text)) return StdSpec{.for_all = *choice};
    if (auto by_rank = parse_map(text)) return StdSpec{.for_all = Std::none, .by_rank = std::move(*by_rank)};
    return usage_error(std::string(option_name) + ": " + std::string(text) +
                           R"( does not match: <^[0123]$> or <^(\d:[0123],)*(\d:[0123])$>)",
                       "0 is none, 1 stdout, 2 stderr, 3 both; 0:3,1:2 chooses by local rank");
}

}  // namespace cpprun
