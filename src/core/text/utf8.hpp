// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace cpprun {

/// Whether Python reads these bytes as text: UTF-8 (RFC 3629), and surrogates beside it, which its pickles may hold.
bool is_utf8_or_surrogates(std::string_view bytes);

}  // namespace cpprun
