// SPDX-License-Identifier: BSD-3-Clause
#include "cli/duration.hpp"

#include "core/text/python_number.hpp"

namespace cpprun {

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text, std::chrono::milliseconds max) {
    double ms_per_unit = 1000.0;
    if (text.ends_with("ms")) {
        ms_per_unit = 1.0;
        text.remove_suffix(2);
    } else if (text.ends_with('s')) {
        text.remove_suffix(1);
    }
    const auto number = parse_python_float(text);
    if (!number || !(*number >= 0) || *number * ms_per_unit > static_cast<double>(max.count())) return std::nullopt;
    return std::chrono::round<std::chrono::milliseconds>(
        std::chrono::duration<double, std::milli>(*number * ms_per_unit));
}

}  // namespace cpprun
