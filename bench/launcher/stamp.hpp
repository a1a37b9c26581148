// SPDX-License-Identifier: BSD-3-Clause
// One line in the file that BENCH_RECORD names, for bench/launcher/run: "WHAT RANK ATTEMPT NANOSECONDS\n".
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace bench {

/// CLOCK_MONOTONIC, which all processes of the machine share.
inline long long now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

inline const char* variable(const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : value;
}

/// Appends in one write, so that lines of many processes do not mix. Ends the process when it cannot.
inline void record(const char* what, const char* rank, const char* attempt, long long at_ns) {
    char line[128];
    const int length = std::snprintf(line, sizeof line, "%s %s %s %lld\n", what, rank, attempt, at_ns);
    const int file = open(variable("BENCH_RECORD", ""), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, static_cast<std::size_t>(length)) != length) {
        std::perror("BENCH_RECORD");
        std::_Exit(3);
    }
    close(file);
}

}  // namespace bench
