// SPDX-License-Identifier: BSD-3-Clause
// bench_exec PROGRAM ARGS...: records the time and becomes PROGRAM, so that nothing of the measuring script's own
// fork and exec is counted.
#include "stamp.hpp"

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    bench::record("exec", "-", "-", bench::now_ns());
    execvp(argv[1], argv + 1);
    std::perror(argv[1]);
    return 127;
}
