// SPDX-License-Identifier: BSD-3-Clause
// What is made from the option table: cpprun_cli_reference > docs/cli.md; cpprun_cli_reference man > docs/cpprun.1.
#include "unit/cli/cli_reference.hpp"
#include "unit/cli/man_page.hpp"

#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
    const bool man = argc > 1 && std::string_view(argv[1]) == "man";
    const std::string page = man ? cpprun::man_page() : cpprun::cli_reference_page();
    return std::fputs(page.c_str(), stdout) < 0 ? 1 : 0;
}
