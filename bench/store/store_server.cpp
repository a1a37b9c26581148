// SPDX-License-Identifier: BSD-3-Clause
// Our store, to be measured. Arguments: [threads]. Prints its port and serves until its input ends.
#include "runtime/store/store_host.hpp"

#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
    cpprun::ListenSpec spec;
    spec.scope = cpprun::ListenScope::all;
    if (argc > 1) spec.threads = std::atoi(argv[1]);
    const auto host = cpprun::StoreHost::start(spec, {});
    if (!host) return 1;
    std::cout << host.value()->port() << std::endl;
    while (std::cin.get() != EOF) {
    }
    return 0;
}
