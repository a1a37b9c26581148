// SPDX-License-Identifier: BSD-3-Clause
// A fake wall clock, to be preloaded: with each look at it, it jumps by CPPRUN_FAKE_CLOCK_STEP seconds, which may be
// negative. Whoever measures time by it is an hour wrong at once. The steady clock is left alone.
#include <atomic>
#include <cstdlib>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

long jumped() {
    static const long step = [] {
        const char* text = getenv("CPPRUN_FAKE_CLOCK_STEP");
        return text == nullptr ? 0L : atol(text);
    }();
    static std::atomic<long> looks{0};
    // Not out of the range of dates that a program can bear.
    return step * (++looks % 10000);
}

bool is_wall(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
    const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
    if (result == 0 && is_wall(clock)) time->tv_sec += jumped();
    return result;
}

int gettimeofday(timeval* time, void*) noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    if (time != nullptr) *time = {now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t* place) noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    if (place != nullptr) *place = now.tv_sec;
    return now.tv_sec;
}

}  // extern "C"
