// SPDX-License-Identifier: BSD-3-Clause
// bench_log_worker MODE NUMBER: records when it began, then
//   stamps  writes NUMBER lines, one each 20 ms or so, that hold the time just before their write;
//   flood   writes NUMBER megabytes in lines of 100 bytes, 64 KiB at a time;
//   quiet   waits for a signal.
#include "launcher/stamp.hpp"

#include <algorithm>
#include <csignal>
#include <string>
#include <sys/prctl.h>

namespace {

void write_all(const char* data, std::size_t size) {
    while (size > 0) {
        const ssize_t written = write(1, data, size);
        if (written <= 0) std::_Exit(4);
        data += written;
        size -= static_cast<std::size_t>(written);
    }
}

void stamps(long count) {
    for (long i = 0; i < count; ++i) {
        // Not in step with anything that looks at regular intervals.
        const timespec pause{0, 15'000'000 + i * 7'919'000 % 10'000'000};
        nanosleep(&pause, nullptr);
        char line[101];
        const int length = std::snprintf(line, sizeof line, "%-99lld\n", bench::now_ns());
        write_all(line, static_cast<std::size_t>(length));
    }
}

void flood(long megabytes) {
    std::string text;
    while (text.size() + 100 <= 65536) text += std::string(99, 'x') + '\n';
    for (long left = megabytes * 1'000'000; left > 0; left -= static_cast<long>(text.size()))
        write_all(text.data(), std::min(text.size(), static_cast<std::size_t>(left)));
}

[[noreturn]] void quiet() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(300);
    for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
    const long number = argc > 2 ? std::atol(argv[2]) : 1;
    const std::string mode = argc > 1 ? argv[1] : "";
    bench::record("worker", bench::variable("RANK", "0"), "0", bench::now_ns());
    if (mode == "quiet") quiet();
    if (mode == "stamps") stamps(number);
    if (mode == "flood") flood(number);
    return 0;
}
