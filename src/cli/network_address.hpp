// SPDX-License-Identifier: BSD-3-Clause
// The shape of numeric addresses and networks, read as inet_pton reads them, which is no pure function.
#pragma once

#include <optional>
#include <string_view>

namespace cpprun {

/// 32 or 128: the width of the IPv4 or IPv6 address; none: no such address. As the store takes it: IPv6 also in
/// brackets and with "%INTERFACE" behind it.
std::optional<int> address_width(std::string_view text);

/// Whether `text` is an address, or one with "/" and a prefix length.
bool is_network(std::string_view text);

}  // namespace cpprun
