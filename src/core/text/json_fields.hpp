// SPDX-License-Identifier: BSD-3-Clause
// Reading JSON that somebody else wrote: what is missing, of another type, or in something that is no object, is none.
// For both of nlohmann's objects, ordered or not.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

/// Values in values in values: copying and writing them takes a call for each, and a stack has an end.
inline constexpr int json_depth_max = 64;

/// Whether `text`, were it JSON, would be nested deeper than json_depth_max.
inline bool is_nested_too_deeply(std::string_view text) {
    int depth = 0;
    bool in_string = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (in_string && c == '\\') {
            ++at;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && (c == '[' || c == '{')) {
            if (++depth > json_depth_max) return true;
        } else if (!in_string && (c == ']' || c == '}')) {
            --depth;
        }
    }
    return false;
}

/// The value in `text`; null when that is longer than `bytes_max`, nested too deeply, or no JSON.
template <class Json>
Json parse_foreign_json(std::string_view text, std::size_t bytes_max) {
    if (text.size() > bytes_max || is_nested_too_deeply(text)) return Json();
    Json value = Json::parse(text, nullptr, false);
    return value.is_discarded() ? Json() : value;
}

template <class Json>
std::optional<std::string> text_field(const Json& object, const char* name) {
    const auto field = object.find(name);
    if (field == object.end() || !field->is_string()) return std::nullopt;
    return field->template get<std::string>();
}

/// A number above the signed range reads as a negative one.
template <class Json>
std::optional<std::int64_t> integer_field(const Json& object, const char* name) {
    const auto field = object.find(name);
    if (field == object.end() || !field->is_number_integer()) return std::nullopt;
    return field->template get<std::int64_t>();
}

}  // namespace cpprun
