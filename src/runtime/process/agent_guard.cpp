// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/agent_guard.hpp"

#include "core/error.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <linux/close_range.h>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cpprun {
namespace {

using Clock = std::chrono::steady_clock;

enum class Order : std::int32_t { watch, forget, lease };

/// What the agent writes, one datagram each.
struct Message {
    Order order = Order::forget;
    std::int32_t group = 0;
    std::int64_t until = 0;  ///< nanoseconds of the steady clock, which all processes of a machine share
};

constexpr std::size_t groups_max = 4096;
constexpr int own_channel = 3;

/// The guard's whole state. After fork in a process that may have had threads only plain system calls are safe.
struct Guard {
    std::array<pid_t, groups_max> groups{};
    std::size_t count = 0;
    std::int64_t until = 0;

    void kill_all() {
        for (std::size_t i = 0; i < count; ++i) ::kill(-groups[i], SIGKILL);
        count = 0;
        until = 0;
    }
};

int milliseconds_left(std::int64_t until) {
    if (until == 0) return -1;
    const std::int64_t left = (until - Clock::now().time_since_epoch().count()) / 1'000'000 + 1;
    return left < 0 ? 0 : left > 60'000 ? 60'000 : static_cast<int>(left);
}

void ignore_signals() {
    for (int signo = 1; signo < NSIG; ++signo)
        if (signo != SIGKILL && signo != SIGSTOP && signo != SIGCHLD) std::signal(signo, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void guard_main(int channel) {
    ::setsid();
    ignore_signals();
    ::prctl(PR_SET_NAME, "cpprun-guard");
    if (channel != own_channel) ::dup2(channel, own_channel);
    ::syscall(SYS_close_range, own_channel + 1, ~0U, 0);
    ::close(0);
    ::close(1);
    static Guard guard;
    for (;;) {
        pollfd wait{own_channel, POLLIN, 0};
        const int ready = ::poll(&wait, 1, milliseconds_left(guard.until));
        if (ready == 0 || (guard.until != 0 && Clock::now().time_since_epoch().count() >= guard.until)) {
            guard.kill_all();
            continue;
        }
        if (ready < 0) continue;
        Message message;
        const ssize_t got = ::recv(own_channel, &message, sizeof message, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got != static_cast<ssize_t>(sizeof message)) break;
        if (message.order == Order::watch && guard.count < groups_max && message.group > 1)
            guard.groups[guard.count++] = message.group;
        if (message.order == Order::forget) guard.count = 0;
        if (message.order == Order::lease) guard.until = message.until;
    }
    guard.kill_all();
    ::_exit(0);
}

void tell(const UniqueFd& channel, const Message& message) {
    // A dead guard is no reason to fail: it only guards.
    [[maybe_unused]] const ssize_t sent = ::send(channel.get(), &message, sizeof message, MSG_NOSIGNAL);
}

}  // namespace

Result<std::unique_ptr<AgentGuard>> AgentGuard::start() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return failure("no channel to a guard: " + error_text(errno));
    UniqueFd ours(ends[0]);
    UniqueFd theirs(ends[1]);
    const pid_t pid = ::fork();
    if (pid < 0) return failure("no process for a guard: " + error_text(errno));
    if (pid == 0) guard_main(theirs.get());
    return std::unique_ptr<AgentGuard>(new AgentGuard(pid, std::move(ours)));
}

AgentGuard::~AgentGuard() {
    // Not by a message: a guard that somebody has stopped would be waited for without end.
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

void AgentGuard::watch(pid_t group) {
    tell(channel_, {Order::watch, group, 0});
}

void AgentGuard::forget() {
    tell(channel_, {Order::forget, 0, 0});
}

void AgentGuard::lease_until(Clock::time_point time) {
    tell(channel_, {Order::lease, 0, time.time_since_epoch().count()});
}

}  // namespace cpprun
