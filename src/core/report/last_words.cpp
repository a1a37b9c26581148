// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/last_words.hpp"

#include "core/text/terminal_safe.hpp"

#include <algorithm>

namespace cpprun {
namespace {

constexpr std::size_t line_bytes_max = 240;
constexpr std::string_view traceback_head = "Traceback (most recent call last):";

std::string shown_line(std::string_view line) {
    while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const std::size_t written_over = line.rfind('\r');
    if (written_over != std::string_view::npos) line.remove_prefix(written_over + 1);
    std::string text = terminal_safe(line.substr(0, 4 * line_bytes_max));
    if (text.size() > line_bytes_max) {
        text.resize(line_bytes_max);
        while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0U) == 0x80U) text.pop_back();
        if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0U) text.pop_back();
        text += "...";
    }
    return text;
}

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines.push_back(shown_line(text.substr(0, end)));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines;
}

/// Loggers and wrappers put words before Python's.
bool is_head(const std::string& line) {
    return line.ends_with(traceback_head);
}

}  // namespace

LastWords read_last_words(std::string_view stderr_end, std::size_t lines_max) {
    const std::vector<std::string> lines = lines_of(stderr_end);
    LastWords words;
    std::size_t begin = lines.size();
    for (std::size_t at = lines.size(); at-- > 0;) {
        // What Python could not raise, while it went down, is no cause.
        if (is_head(lines[at]) && (at == 0 || !lines[at - 1].starts_with("Exception ignored"))) {
            begin = at;
            break;
        }
    }
    if (begin == lines.size()) {
        const std::size_t count = std::min(lines_max, lines.size());
        words.lines.assign(lines.end() - static_cast<std::ptrdiff_t>(count), lines.end());
        return words;
    }
    const std::size_t before = lines[begin].size() - traceback_head.size();
    std::size_t last = begin + 1;
    while (last < lines.size() && lines[last].size() > before && lines[last][before] == ' ') ++last;
    if (last < lines.size()) words.exception = lines[last].substr(std::min(before, lines[last].size()));
    const std::size_t end = std::min(last + 1, lines.size());
    const std::size_t count = end - begin;
    const auto from = lines.begin() + static_cast<std::ptrdiff_t>(begin);
    if (count <= lines_max) {
        words.lines.assign(from, from + static_cast<std::ptrdiff_t>(count));
        return words;
    }
    words.lines = {lines[begin], "  ..."};
    const auto rest = static_cast<std::ptrdiff_t>(lines_max - 2);
    words.lines.insert(words.lines.end(), from + static_cast<std::ptrdiff_t>(count) - rest,
                       from + static_cast<std::ptrdiff_t>(count));
    return words;
}

}  // namespace cpprun
