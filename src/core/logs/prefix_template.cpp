// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/prefix_template.hpp"

#include "core/text/python_template.hpp"

#include <array>
#include <utility>

namespace cpprun {
namespace {

// No argument and no variable can hold a NUL, so that these stand for the moment and nothing else.
constexpr std::string_view date_mark{"\0d", 2};
constexpr std::string_view time_mark{"\0t", 2};

std::map<std::string, std::string, std::less<>> substitutions(const PrefixValues& values) {
    return {{"role_name", values.role_name},
            {"local_rank", std::to_string(values.local_rank)},
            {"rank", std::to_string(values.rank)},
            {"hostname", values.hostname}};
}

/// ECMA-48's select graphic rendition. Red is left to errors, and black and white to the background.
std::string_view colour_of(int rank) {
    constexpr std::array<std::string_view, 10> colours{"36", "33", "32", "35", "34", "96", "93", "92", "95", "94"};
    return colours[static_cast<std::size_t>(rank) % colours.size()];
}

void replace_all(std::string& text, std::string_view mark, const std::string& value) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
        text.replace(at, mark.size(), value);
}

}  // namespace

std::string choose_prefix_template(const std::optional<std::string>& option, const Environment& environment) {
    if (option && !option->empty()) return *option;
    const auto variable = environment.find("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    if (variable != environment.end() && !variable->second.empty()) return variable->second;
    return "[${role_name}${local_rank}]:";
}

std::string line_prefix(const std::string& prefix_template, const PrefixValues& values) {
    return safe_substitute(prefix_template, substitutions(values));
}

std::optional<std::string> prefix_template_of(std::string_view value) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> presets{{
        {"none", ""},
        {"rank", "[${rank}] "},
        {"host", "[${hostname} ${rank}] "},
        {"time", "${time} [${rank}] "},
        {"full", "${date} ${time} [${hostname} rank ${rank} local ${local_rank} ${stream}] "},
    }};
    for (const auto& [name, text] : presets)
        if (value == name) return std::string(text);
    if (value.find('$') == std::string_view::npos) return std::nullopt;
    return std::string(value);
}

LinePrefix LinePrefix::made(const std::string& prefix_template, const PrefixValues& values, Std stream, int attempt) {
    auto names = substitutions(values);
    names.emplace("stream", stream == Std::err ? "stderr" : "stdout");
    names.emplace("attempt", std::to_string(attempt));
    names.emplace("date", date_mark);
    names.emplace("time", time_mark);
    LinePrefix prefix(safe_substitute(prefix_template, names));
    prefix.has_moment_ = prefix.text_.find('\0') != std::string::npos;
    return prefix;
}

std::string LinePrefix::text(const LineMoment& moment, bool painted) const {
    std::string text = text_;
    if (has_moment_) {
        replace_all(text, date_mark, moment.date);
        replace_all(text, time_mark, moment.time);
    }
    if (!painted || rank_ < 0 || text.empty()) return text;
    return std::string("\x1b[").append(colour_of(rank_)).append("m").append(text).append("\x1b[0m");
}

}  // namespace cpprun
