// SPDX-License-Identifier: BSD-3-Clause
// Digits as every format of ours means them, whatever the locale says.
#pragma once

namespace cpprun {

/// 0 to 9.
constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

}  // namespace cpprun
