// SPDX-License-Identifier: BSD-3-Clause
// Text from workers and peers, made safe to show on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace cpprun {

/// Removes C0 and C1 control characters and DEL but for line feeds and tabs, so that no escape sequence survives;
/// every other byte stays.
std::string terminal_safe(std::string_view text);

}  // namespace cpprun
