// SPDX-License-Identifier: BSD-3-Clause
// How Python shows a string, so that a value stands in a message on one line and unmistakably: 'a', "it's", 'a\nb'.
#pragma once

#include <string>
#include <string_view>

namespace cpprun {

/// `text` in quotes: single ones, or double ones when it holds single ones only. Control characters and bytes that are
/// not UTF-8 are escaped (the latter as Python shows undecodable bytes: '\udcff'); the result has no line break.
std::string python_repr(std::string_view text);

/// `text` with every ASCII control character replaced by "?", so that a message stays on one line and a terminal does
/// not obey it.
std::string one_line(std::string text);

}  // namespace cpprun
