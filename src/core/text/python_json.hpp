// SPDX-License-Identifier: BSD-3-Clause
// JSON text as Python's json.dumps writes it by default, since files and lines that torchrun leaves are read by tools
// that compare text: ", " and ": " as separators, non-ASCII characters as \uXXXX, keys in the order they were put.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace cpprun {

/// One line, no line break at the end. Bytes that are not UTF-8 become U+FFFD.
std::string python_json(const nlohmann::ordered_json& value);

}  // namespace cpprun
