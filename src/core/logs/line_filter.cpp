// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/line_filter.hpp"

#include <algorithm>

namespace cpprun {

void LineFilter::append_if_chosen(std::string_view line, std::string& out) const {
    const auto is_in_line = [line](const std::string& needle) { return line.find(needle) != std::string_view::npos; };
    if (!std::any_of(needles_.begin(), needles_.end(), is_in_line)) return;
    out.append(prefix_).append(line).push_back('\n');
}

void LineFilter::feed(std::string_view bytes, std::string& out) {
    lines_.feed(bytes, [&](std::string_view line, LineEnd end) {
        if (end != LineEnd::late_newline) append_if_chosen(line, out);
    });
}

void LineFilter::finish(std::string& out) {
    lines_.finish([&](std::string_view line, LineEnd) { append_if_chosen(line, out); });
}

}  // namespace cpprun
