// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/os/signal_source.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sys/signalfd.h>
#include <system_error>
#include <unistd.h>

namespace cpprun {
namespace {

sigset_t as_set(const std::set<int>& signals) {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signo : signals) ::sigaddset(&set, signo);
    return set;
}

bool is_ignored(int signo) {
    struct sigaction action {};
    return ::sigaction(signo, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

std::string sender_of(const signalfd_siginfo& info) {
    // Only kill() and its kin name a process; a key on the terminal or a timer has none.
    if (info.ssi_code != SI_USER && info.ssi_code != SI_QUEUE && info.ssi_code != SI_TKILL) return {};
    if (info.ssi_pid == 0) return {};
    std::string command;
    std::ifstream file("/proc/" + std::to_string(info.ssi_pid) + "/comm");
    std::getline(file, command);
    return "pid " + std::to_string(info.ssi_pid) + " (" + (command.empty() ? "" : command + ", ") + "uid " +
           std::to_string(info.ssi_uid) + ")";
}

}  // namespace

SignalInheritance hold_signals() {
    SignalInheritance held;
    held.hangup_ignored = is_ignored(SIGHUP);
    held.blocked = {SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};
    if (!held.hangup_ignored) held.blocked.insert(SIGHUP);
    for (int signo = SIGRTMIN; signo <= SIGRTMAX; ++signo)
        if (!is_ignored(signo)) held.blocked.insert(signo);
    for (const int signo : {SIGUSR1, SIGUSR2, SIGALRM})
        if (is_ignored(signo)) held.blocked.erase(signo);
    // SIGTSTP comes ignored where there is no job control.
    if (!is_ignored(SIGTSTP)) held.blocked.insert({SIGTSTP, SIGCONT});
    if (::getpid() == 1) held.blocked.insert(SIGCHLD);
    const sigset_t set = as_set(held.blocked);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    // An ignored signal is dropped even while it is blocked.
    for (const int signo : {SIGINT, SIGQUIT, SIGCHLD}) ::signal(signo, SIG_DFL);
    for (const int signo : {SIGPIPE, SIGTTIN, SIGTTOU}) ::signal(signo, SIG_IGN);
    return held;
}

void hold_also(SignalInheritance& held, const std::set<int>& signals) {
    std::set<int> more = signals;
    if (held.hangup_ignored) more.erase(SIGHUP);
    const sigset_t set = as_set(more);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    for (const int signo : more)
        if (is_ignored(signo)) ::signal(signo, SIG_DFL);
    held.blocked.insert(more.begin(), more.end());
}

void die_by_signal(int signo) {
    std::fflush(nullptr);
    ::signal(signo, SIG_DFL);
    const sigset_t set = as_set({signo});
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    ::raise(signo);
    std::_Exit(128 + signo);
}

SignalSource::SignalSource(boost::asio::io_context& io, const SignalInheritance& held,
                           std::function<void(const ReceivedSignal&)> receive)
    : descriptor_(io), receive_(std::move(receive)) {
    const sigset_t set = as_set(held.blocked);
    const int fd = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
    descriptor_.assign(fd);
    wait();
}

void SignalSource::wait() {
    descriptor_.async_wait(boost::asio::posix::descriptor_base::wait_read, [this](boost::system::error_code error) {
        if (error) return;
        std::array<signalfd_siginfo, 16> infos{};
        const ssize_t got = ::read(descriptor_.native_handle(), infos.data(), sizeof infos);
        const std::size_t count = got > 0 ? static_cast<std::size_t>(got) / sizeof(signalfd_siginfo) : 0;
        for (std::size_t i = 0; i < count; ++i)
            receive_({static_cast<int>(infos[i].ssi_signo), sender_of(infos[i]), infos[i].ssi_code == SI_KERNEL});
        wait();
    });
}

}  // namespace cpprun
