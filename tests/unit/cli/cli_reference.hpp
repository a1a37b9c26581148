// SPDX-License-Identifier: BSD-3-Clause
// docs/cli.md, made from the option table.
#pragma once

#include <string>

namespace cpprun {

/// The whole page.
std::string cli_reference_page();

}  // namespace cpprun
