// SPDX-License-Identifier: BSD-3-Clause
#include <cpprun/version.hpp>

#include <cstdio>

int main() { return std::printf("cpprun %s\n", cpprun::version) > 0 ? 0 : 1; }
