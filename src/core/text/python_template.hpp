// SPDX-License-Identifier: BSD-3-Clause
// Python's string.Template.safe_substitute, as torchrun uses it for macros in arguments (contract 1.7) and for the
// prefix of console lines (contract 5.4).
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace cpprun {

/// Replaces `$name` and `${name}` by `values`; `$$` becomes `$`; unknown names and lone `$` stay as they are.
/// A name is the longest run of ASCII letters, digits and underscores that does not begin with a digit; matching is
/// case-sensitive. Bytes that are not ASCII pass unchanged.
std::string safe_substitute(std::string_view text, const std::map<std::string, std::string, std::less<>>& values);

}  // namespace cpprun
