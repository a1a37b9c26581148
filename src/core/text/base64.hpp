// SPDX-License-Identifier: BSD-3-Clause
// Base64 (RFC 4648, section 4) as Python's base64 module reads and writes it, since its users share values with us.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

/// Padded, without line breaks.
std::string encode_base64(std::string_view bytes);

/// As base64.b64decode by default: characters outside the alphabet are skipped, and so is all that follows the padding.
/// None when the padding is missing or wrong.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace cpprun
