// SPDX-License-Identifier: BSD-3-Clause
// docs/cpprun.1, the manual page, made from the option table.
#pragma once

#include <string>

namespace cpprun {

/// The whole page, in man(7) macros.
std::string man_page();

}  // namespace cpprun
