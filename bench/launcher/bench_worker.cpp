// SPDX-License-Identifier: BSD-3-Clause
// bench_worker MODE: records when it began, then
//   exit      ends well;
//   hold      waits for a signal;
//   fail-once in attempt 0 waits for all its siblings, and rank 0 then fails; in later attempts ends well.
#include "stamp.hpp"

#include <csignal>
#include <cstring>
#include <sys/prctl.h>

namespace {

int lines_in_record() {
    std::FILE* file = std::fopen(bench::variable("BENCH_RECORD", ""), "r");
    if (file == nullptr) return 0;
    int lines = 0;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) lines += c == '\n' ? 1 : 0;
    std::fclose(file);
    return lines;
}

// The record's first line is the launcher's.
void wait_for_siblings(int world_size) {
    const timespec pause{0, 1'000'000};
    for (int tries = 0; tries < 60'000 && lines_in_record() < 1 + world_size; ++tries) nanosleep(&pause, nullptr);
}

[[noreturn]] void hold() {
    // The plain loop stops nobody when it is stopped itself; and no run lasts as long as the alarm.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(300);
    for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
    const long long began = bench::now_ns();
    const char* mode = argc > 1 ? argv[1] : "exit";
    const char* rank = bench::variable("RANK", "0");
    const char* attempt = bench::variable("TORCHELASTIC_RESTART_COUNT", "0");
    bench::record("worker", rank, attempt, began);
    if (std::strcmp(mode, "hold") == 0) hold();
    if (std::strcmp(mode, "fail-once") != 0 || std::strcmp(attempt, "0") != 0) return 0;
    if (std::strcmp(rank, "0") != 0) hold();
    wait_for_siblings(std::atoi(bench::variable("WORLD_SIZE", "1")));
    // A moment, so that the launcher has long gone back to waiting.
    const timespec moment{0, 300'000'000};
    nanosleep(&moment, nullptr);
    bench::record("failure", rank, attempt, bench::now_ns());
    return 1;
}
