// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/worker_guard.hpp"

#include "runtime/process/child_status.hpp"
#include "runtime/process/guard_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace cpprun {
namespace {

enum class Order : std::int32_t { kill, lease };

/// What the agent writes, one datagram each.
struct Message {
    Order order = Order::kill;
    std::int64_t until = 0;  ///< nanoseconds of the steady clock
};

enum class News : std::int32_t { started, not_started, ended };

/// What the guard writes. With not_started the error's message and hint follow, each with a null at its end.
struct Report {
    News news = News::started;
    std::int32_t number = 0;  ///< pid, ErrorKind, or code or signal
    std::int32_t by_signal = 0;
};

constexpr std::size_t report_bytes_max = std::size_t{32} * 1024;
constexpr int again_ms = 20;                          // nobody tells when a process falls to us
constexpr std::int64_t farewell_ns = 60'000'000'000;  // what still lives then cannot be killed

/// Calls `act` for each of our children, from a file that may be changing. Only plain system calls.
template <class Act>
void for_each_child(const Act& act) {
    const int file = ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    std::array<char, 4096> text{};
    pid_t pid = 0;
    for (ssize_t got = 0; (got = ::read(file, text.data(), text.size())) > 0;) {
        for (const char letter : std::string_view(text.data(), static_cast<std::size_t>(got))) {
            if (letter >= '0' && letter <= '9') {
                pid = pid * 10 + (letter - '0');
            } else if (pid != 0) {
                act(std::exchange(pid, 0));
            }
        }
    }
    ::close(file);
}

/// The guard after the start of its worker. Plain system calls only, no memory of its own.
class Guard {
  public:
    Guard(int channel, int children, pid_t worker) : channel_(channel), children_(children), worker_(worker) {}

    [[noreturn]] void run() {
        for (;;) {
            look_at_children();
            if (farewell_ != 0 && (!has_children() || steady_now() >= farewell_)) ::_exit(0);
            std::array<pollfd, 2> wait{{{children_, POLLIN, 0}, {channel_, POLLIN, 0}}};
            const int bound = killing_ ? again_ms : milliseconds_left(until_);
            ::poll(wait.data(), farewell_ == 0 ? 2 : 1, bound);
            if ((wait[0].revents & POLLIN) != 0) {
                signalfd_siginfo info;
                [[maybe_unused]] const ssize_t got = ::read(children_, &info, sizeof info);
            }
            if (farewell_ == 0 && wait[1].revents != 0) take_orders();
            if (until_ != 0 && steady_now() >= until_) {
                killing_ = true;
                until_ = 0;
            }
        }
    }

  private:
    // To kill whoever is our child, again and again, needs no list of the tree: what one of them leaves behind is ours
    // by the time that we may reap it. And nobody else can get the number of a child that we have not reaped.
    void look_at_children() {
        if (killing_ && !reaped_) ::kill(-worker_, SIGKILL);
        bool others = false;
        for_each_child([&](pid_t pid) {
            if (killing_) ::kill(pid, SIGKILL);
            // The worker stays as a zombie, so that the number of its process group stays its own.
            if (pid == worker_ && farewell_ == 0) return;
            const bool reaped = ::waitpid(pid, nullptr, WNOHANG) == pid;
            others = !reaped || others;
            reaped_ = (reaped && pid == worker_) || reaped_;
        });
        if (!ended_) {
            if (const auto status = status_of_child(worker_)) {
                ended_ = true;
                const Report report{News::ended, status->value, status->signaled ? 1 : 0};
                ::send(channel_, &report, sizeof report, MSG_NOSIGNAL | MSG_DONTWAIT);
            }
        }
        if (killing_ && farewell_ == 0 && ended_ && !others) killing_ = false;
    }

    static bool has_children() {
        siginfo_t info{};
        return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    }

    void take_orders() {
        Message message;
        const ssize_t got = ::recv(channel_, &message, sizeof message, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
        if (got != static_cast<ssize_t>(sizeof message)) {
            killing_ = true;
            farewell_ = steady_now() + farewell_ns;
        } else if (message.order == Order::kill) {
            killing_ = true;
        } else {
            until_ = message.until;
        }
    }

    int channel_;
    int children_;
    pid_t worker_;
    bool ended_ = false;
    bool reaped_ = false;
    bool killing_ = false;
    std::int64_t until_ = 0;
    std::int64_t farewell_ = 0;  ///< the agent is gone; when to give up
};

[[noreturn]] void guard_main(const SpawnSpec& spec, int channel) {
    leave_session();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    // The C library's locks were free at the fork, which it sees to itself; so starting the worker may allocate.
    const Result<pid_t> worker = spawn(spec);
    if (!worker) {
        const Report report{News::not_started, static_cast<std::int32_t>(worker.error().kind), 0};
        std::string text(reinterpret_cast<const char*>(&report), sizeof report);
        text += worker.error().message + '\0' + worker.error().hint + '\0';
        ::send(channel, text.data(), std::min(text.size(), report_bytes_max), MSG_NOSIGNAL);
        ::_exit(1);
    }
    // Not before: the worker would inherit it.
    ignore_signals();
    close_all_but(&channel, 1);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    const int children = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    const Report report{News::started, worker.value(), 0};
    ::send(channel, &report, sizeof report, MSG_NOSIGNAL);
    Guard(channel, children, worker.value()).run();
}

/// The pid of the worker, or why there is none.
Result<pid_t> read_start(int channel) {
    std::string text(report_bytes_max, '\0');
    ssize_t got = 0;
    do {
        got = ::recv(channel, text.data(), text.size(), 0);
    } while (got < 0 && errno == EINTR);
    Report report;
    if (got < static_cast<ssize_t>(sizeof report)) return failure("the guard of a worker died while it started it");
    std::memcpy(&report, text.data(), sizeof report);
    if (report.news == News::started) return report.number;
    text.resize(static_cast<std::size_t>(got));
    Error error{static_cast<ErrorKind>(report.number), text.c_str() + sizeof report};
    const std::size_t hint_at = sizeof report + error.message.size() + 1;
    if (hint_at < text.size()) error.hint = text.c_str() + hint_at;
    return error;
}

}  // namespace

Result<std::unique_ptr<WorkerGuard>> WorkerGuard::start(const SpawnSpec& spec) {
    BOOST_OUTCOME_TRY(auto channel, make_channel());
    const pid_t pid = ::fork();
    if (pid < 0) return failure("no process for the guard of a worker: " + error_text(errno));
    if (pid == 0) guard_main(spec, channel.second.get());
    return std::unique_ptr<WorkerGuard>(new WorkerGuard(pid, std::move(channel.first)));
}

Result<void> WorkerGuard::await_start() {
    const Result<pid_t> worker = read_start(channel_.get());
    if (!worker) {
        dead_ = true;
        ::waitpid(pid_, nullptr, 0);
        return worker.error();
    }
    worker_ = worker.value();
    return boost::outcome_v2::success();
}

WorkerGuard::~WorkerGuard() = default;

std::optional<ExitStatus> WorkerGuard::ended() {
    if (status_ || worker_ < 0) return status_;
    if (!dead_) {
        Report report;
        const ssize_t got = ::recv(channel_.get(), &report, sizeof report, MSG_DONTWAIT);
        if (got == static_cast<ssize_t>(sizeof report) && report.news == News::ended) {
            status_ = report.by_signal != 0 ? ExitStatus::killed_by(report.number) : ExitStatus::exited(report.number);
            return status_;
        }
        if (got < 0) return std::nullopt;
        dead_ = true;
    }
    // The kernel has done so already, unless the worker has changed its user since; and it cannot be anybody else, as
    // nobody but us can reap it.
    ::kill(worker_, SIGKILL);
    status_ = status_of_child(worker_);
    return status_;
}

void WorkerGuard::kill() {
    const Message message{Order::kill, 0};
    if (::send(channel_.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE)
        dead_ = true;
}

void WorkerGuard::let_go() {
    if (worker_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::waitpid(worker_, nullptr, WNOHANG);
}

void WorkerGuard::lease_until(std::chrono::steady_clock::time_point time) {
    const Message message{Order::lease,
                          std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count()};
    ::send(channel_.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace cpprun
