// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/agent_guard.hpp"

#include "runtime/process/guard_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cpprun {
namespace {

enum class Order : std::int32_t { watch, forget, lease };

/// What the agent writes, one datagram each.
struct Message {
    Order order = Order::forget;
    std::int32_t group = 0;
    std::int64_t until = 0;  ///< nanoseconds of the steady clock
};

constexpr std::size_t groups_max = 4096;
constexpr std::int64_t removal_ns = 10'000'000'000;
constexpr int removal_step_ms = 5;

/// The guard's whole state. After fork in a process that may have had threads only plain system calls are safe.
struct Guard {
    const CgroupTree* tree = nullptr;
    std::array<pid_t, groups_max> groups{};
    std::size_t count = 0;
    std::int64_t until = 0;

    void kill_all() {
        for (std::size_t i = 0; i < count; ++i) ::kill(-groups[i], SIGKILL);
        if (tree != nullptr) tree->root().kill();
        count = 0;
        until = 0;
    }

    void watch(pid_t group) {
        if (group <= 1 || count == groups_max) return;
        if (std::find(groups.begin(), groups.begin() + count, group) == groups.begin() + count) groups[count++] = group;
    }

    void take(const Message& message) {
        if (message.order == Order::watch) watch(message.group);
        if (message.order == Order::forget) count = 0;
        if (message.order == Order::lease) until = message.until;
    }
};

/// The C library's locks were free at the fork, which it sees to itself; so reading the directory may allocate.
void remove_tree(const CgroupTree& tree) {
    const std::int64_t deadline = steady_now() + removal_ns;
    while (!tree.root().remove() && steady_now() < deadline) {
        ::poll(nullptr, 0, removal_step_ms);
        tree.root().kill();
    }
}

[[noreturn]] void guard_main(int channel, const CgroupTree* tree) {
    leave_session();
    ignore_signals();
    if (tree == nullptr) {
        close_all_but(&channel, 1);
    } else {
        std::array<int, 2> kept{channel, tree->lock()};
        std::sort(kept.begin(), kept.end());
        close_all_but(kept.data(), 2);
    }
    static Guard guard;
    guard.tree = tree;
    for (;;) {
        pollfd wait{channel, POLLIN, 0};
        const int ready = ::poll(&wait, 1, milliseconds_left(guard.until));
        if (ready == 0 || (guard.until != 0 && steady_now() >= guard.until)) {
            guard.kill_all();
            continue;
        }
        if (ready < 0) continue;
        Message message;
        const ssize_t got = ::recv(channel, &message, sizeof message, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got == static_cast<ssize_t>(sizeof(pid_t))) {
            pid_t announced = 0;
            std::memcpy(&announced, &message, sizeof announced);
            guard.watch(announced);
            continue;
        }
        if (got != static_cast<ssize_t>(sizeof message)) break;
        guard.take(message);
    }
    guard.kill_all();
    if (tree != nullptr) remove_tree(*tree);
    ::_exit(0);
}

void tell(const UniqueFd& channel, const Message& message) {
    // A dead guard is no reason to fail: it only guards.
    [[maybe_unused]] const ssize_t sent = ::send(channel.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Result<std::unique_ptr<AgentGuard>> AgentGuard::start(const CgroupTree* tree) {
    BOOST_OUTCOME_TRY(auto channel, make_channel());
    const pid_t pid = ::fork();
    if (pid < 0) return failure("no process for a guard: " + error_text(errno));
    if (pid == 0) guard_main(channel.second.get(), tree);
    return std::unique_ptr<AgentGuard>(new AgentGuard(pid, std::move(channel.first), tree));
}

AgentGuard::~AgentGuard() {
    if (pid_ < 0) return;
    // Not by a message: a guard that somebody has stopped would be waited for without end.
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

void AgentGuard::watch(pid_t group) {
    groups_.push_back(group);
    tell(channel_, {Order::watch, group, 0});
}

void AgentGuard::forget() {
    groups_.clear();
    tell(channel_, {Order::forget, 0, 0});
}

void AgentGuard::lease_until(std::chrono::steady_clock::time_point time) {
    until_ = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
    tell(channel_, {Order::lease, 0, until_});
}

void AgentGuard::renew_if_dead() {
    if (pid_ >= 0 && ::waitpid(pid_, nullptr, WNOHANG) != pid_) return;
    pid_ = -1;
    auto other = start(tree_);
    if (!other) return;
    std::swap(pid_, other.value()->pid_);
    channel_ = std::move(other.value()->channel_);
    for (const pid_t group : groups_) tell(channel_, {Order::watch, group, 0});
    if (until_ != 0) tell(channel_, {Order::lease, 0, until_});
}

}  // namespace cpprun
