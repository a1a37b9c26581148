// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/guard_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/close_range.h>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cpprun {
namespace {

/// Where the kernel shows the command line from: fields 48 and 49 of /proc/self/stat.
void rename_command_line() {
    const int fd = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    std::array<char, 2048> text{};
    const ssize_t got = ::read(fd, text.data(), text.size() - 1);
    ::close(fd);
    if (got <= 0) return;
    const char* at = std::strrchr(text.data(), ')');
    for (int field = 2; at != nullptr && field < 48; ++field) at = std::strchr(at + 1, ' ');
    if (at == nullptr) return;
    char* rest = nullptr;
    const std::uintptr_t begin = std::strtoull(at, &rest, 10);
    const std::uintptr_t end = std::strtoull(rest, nullptr, 10);
    if (begin == 0 || end <= begin) return;
    // The kernel's own word for where this process keeps its arguments; nobody here reads them again.
    char* const line = reinterpret_cast<char*>(begin);  // NOLINT(performance-no-int-to-ptr)
    std::memset(line, 0, end - begin);
    std::copy_n(guard_name, std::min<std::size_t>(std::strlen(guard_name), end - begin - 1), line);
}

}  // namespace

Result<std::pair<UniqueFd, UniqueFd>> make_channel() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return failure("no channel to a guard: " + error_text(errno));
    return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

void leave_session() {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::setsid();
    ::prctl(PR_SET_NAME, guard_name);
    rename_command_line();
}

void ignore_signals() {
    for (int signo = 1; signo < NSIG; ++signo)
        if (signo != SIGKILL && signo != SIGSTOP && signo != SIGCHLD) std::signal(signo, SIG_IGN);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    ::sigprocmask(SIG_SETMASK, &children, nullptr);
}

void close_all_but(const int* kept, int count) {
    unsigned begin = 0;
    for (int i = 0; i < count; ++i) {
        const auto fd = static_cast<unsigned>(kept[i]);
        if (fd > begin) ::syscall(SYS_close_range, begin, fd - 1, 0);
        begin = fd + 1;
    }
    ::syscall(SYS_close_range, begin, ~0U, 0);
}

std::int64_t steady_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

int milliseconds_left(std::int64_t until) {
    if (until == 0) return -1;
    return static_cast<int>(std::clamp<std::int64_t>((until - steady_now()) / 1'000'000 + 1, 0, 60'000));
}

}  // namespace cpprun
