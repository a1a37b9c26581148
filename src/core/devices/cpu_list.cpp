// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/cpu_list.hpp"

#include "core/text/whole_number.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>

namespace cpprun {
namespace {

std::optional<int> parse_cpu(std::string_view text) {
    const auto value = whole_number<int>(text);
    return value && *value >= 0 && *value <= cpu_id_max ? value : std::nullopt;
}

/// Adds "3" or "0-3" to `cpus`; false when it is neither.
bool add_range(std::string_view text, std::vector<int>& cpus) {
    const std::size_t dash = text.find('-');
    const auto first = parse_cpu(text.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_cpu(text.substr(dash + 1));
    if (!first || !last || *last < *first) return false;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    return true;
}

}  // namespace

Result<std::vector<int>> parse_cpulist(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    std::vector<int> cpus;
    for (std::string_view rest = text; !rest.empty();) {
        const std::size_t comma = rest.find(',');
        // Overlapping ranges could repeat the whole span in each of thousands of items.
        if (!add_range(rest.substr(0, comma), cpus) || cpus.size() > 4 * static_cast<std::size_t>(cpu_id_max))
            return failure(fmt::format("'{}' is not a list of CPUs like 0-3,8", text.substr(0, 80)));
        if (comma != std::string_view::npos && comma + 1 == rest.size())
            return failure(fmt::format("'{}' ends in a comma", text.substr(0, 80)));
        rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    }
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    return cpus;
}

std::string format_cpulist(const std::vector<int>& cpus) {
    std::string text;
    for (std::size_t at = 0; at < cpus.size();) {
        std::size_t last = at;
        while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
        if (!text.empty()) text += ',';
        text += std::to_string(cpus[at]);
        if (last > at) text += '-' + std::to_string(cpus[last]);
        at = last + 1;
    }
    return text;
}

}  // namespace cpprun
