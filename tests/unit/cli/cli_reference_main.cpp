// SPDX-License-Identifier: BSD-3-Clause
// Prints docs/cli.md: cpprun_cli_reference > docs/cli.md.
#include "unit/cli/cli_reference.hpp"

#include <cstdio>

int main() {
    return std::fputs(cpprun::cli_reference_page().c_str(), stdout) < 0 ? 1 : 0;
}
