// SPDX-License-Identifier: BSD-3-Clause
// Python's number syntax, in which torchrun reads its numbers (contract 1.3): int() and float() of a text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cpprun {

/// Reads `text` as Python's int() does in base 10: blanks around it, one sign, digits with single underscores between
/// them (" 1_0 " is 10). None if int() would refuse. Python's integers have no bound; a number that does not fit
/// becomes the nearest std::int64_t, so that a range check refuses it. ASCII digits and blanks only.
std::optional<std::int64_t> parse_python_int(std::string_view text);

/// Reads `text` as Python's float() does: decimal and exponent forms with single underscores between digits, and
/// inf, infinity and nan in any case. None if float() would refuse. Too large becomes infinite, too small zero.
std::optional<double> parse_python_float(std::string_view text);

/// `text` without the blanks that Python's str.strip() takes away (ASCII ones).
std::string_view strip_blanks(std::string_view text);

}  // namespace cpprun
