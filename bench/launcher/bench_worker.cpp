// SPDX-License-Identifier: BSD-3-Clause
// bench_worker MODE: records when it began, then
//   exit      ends well;
//   hold      waits for a signal;
//   fail-once in attempt 0 waits for all its siblings, and rank 0 then fails; in later attempts ends well;
//   die-N     in N attempts of two workers rank 0 fails when rank 1 is there, which waits to be told; then ends well.
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

void sleep_ms(long ms) {
    const timespec pause{0, ms * 1'000'000};
    nanosleep(&pause, nullptr);
}

// The record's first line is the launcher's, and others may stand there from earlier attempts.
void wait_for_siblings(int world_size, int earlier = 0) {
    for (int tries = 0; tries < 60'000 && lines_in_record() < 1 + earlier + world_size; ++tries) sleep_ms(1);
}

[[noreturn]] void hold() {
    // The plain loop stops nobody when it is stopped itself; and no run lasts as long as the alarm.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(300);
    for (;;) pause();
}

int die(int attempts, const char* rank, const char* attempt) {
    const int number = std::atoi(attempt);
    if (number >= attempts) return 0;
    if (std::strcmp(rank, "0") == 0) {
        constexpr int lines_of_attempt = 4;  // both begin, one dies, one is told
        wait_for_siblings(2, number * lines_of_attempt);
        sleep_ms(20);
        bench::record("death", rank, attempt, bench::now_ns());
        return 1;
    }
    sigset_t told;
    sigemptyset(&told);
    sigaddset(&told, SIGTERM);
    int signo = 0;
    alarm(300);
    sigwait(&told, &signo);
    bench::record("told", rank, attempt, bench::now_ns());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const long long began = bench::now_ns();
    const char* mode = argc > 1 ? argv[1] : "exit";
    const char* rank = bench::variable("RANK", "0");
    const char* attempt = bench::variable("TORCHELASTIC_RESTART_COUNT", "0");
    // Before anybody knows of us, so that nobody can tell us too early.
    if (std::strncmp(mode, "die-", 4) == 0) {
        sigset_t told;
        sigemptyset(&told);
        sigaddset(&told, SIGTERM);
        sigprocmask(SIG_BLOCK, &told, nullptr);
    }
    bench::record("worker", rank, attempt, began);
    if (std::strncmp(mode, "die-", 4) == 0) return die(std::atoi(mode + 4), rank, attempt);
    if (std::strcmp(mode, "hold") == 0) hold();
    if (std::strcmp(mode, "fail-once") != 0 || std::strcmp(attempt, "0") != 0) return 0;
    if (std::strcmp(rank, "0") != 0) hold();
    wait_for_siblings(std::atoi(bench::variable("WORLD_SIZE", "1")));
    // A moment, so that the launcher has long gone back to waiting.
    sleep_ms(300);
    bench::record("failure", rank, attempt, bench::now_ns());
    return 1;
}
