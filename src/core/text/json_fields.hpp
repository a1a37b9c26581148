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

/// The value in `text`; null when that is longer than `bytes_max` or no JSON.
template <class Json>
Json parse_foreign_json(std::string_view text, std::size_t bytes_max) {
    if (text.size() > bytes_max) return Json();
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
