// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/local_workers.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cpprun {
namespace {

// glibc 2.36 declares pidfd_open without extern "C".
int open_pidfd(pid_t pid) {
    return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

/// How the process ended, without reaping it. False while it runs.
bool peek_status(pid_t pid, ExitStatus& status) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return false;
    status = info.si_code == CLD_EXITED ? ExitStatus::exited(info.si_status) : ExitStatus::killed_by(info.si_status);
    return true;
}

}  // namespace

LocalWorkers::LocalWorkers(boost::asio::io_context& io, std::function<void(int, ExitStatus)> exited)
    : io_(io), exited_(std::move(exited)) {}

LocalWorkers::~LocalWorkers() = default;

Result<pid_t> LocalWorkers::start(const SpawnSpec& spec) {
    BOOST_OUTCOME_TRY(const pid_t pid, spawn(spec));
    workers_.push_back({pid, false, nullptr});
    return pid;
}

Result<void> LocalWorkers::watch() {
    for (auto worker = workers_.begin(); worker != workers_.end(); ++worker) {
        if (worker->pidfd) continue;
        const int fd = open_pidfd(worker->pid);
        if (fd < 0) {
            const std::string reason = error_text(errno);
            for (auto unseen = worker; unseen != workers_.end(); ++unseen) {
                ::kill(-unseen->pid, SIGKILL);
                ::waitpid(unseen->pid, nullptr, 0);
            }
            const pid_t pid = worker->pid;
            workers_.erase(worker, workers_.end());
            return failure("cannot watch process " + std::to_string(pid) + ": " + reason);
        }
        worker->pidfd = std::make_unique<boost::asio::posix::stream_descriptor>(io_, fd);
        await_end(static_cast<int>(worker - workers_.begin()));
    }
    return boost::outcome_v2::success();
}

void LocalWorkers::await_end(int local_rank) {
    auto& pidfd = *workers_[static_cast<std::size_t>(local_rank)].pidfd;
    pidfd.async_wait(boost::asio::posix::descriptor_base::wait_read,
                     [this, local_rank](boost::system::error_code error) {
                         if (!error) ended(local_rank);
                     });
}

void LocalWorkers::ended(int local_rank) {
    Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
    ExitStatus status;
    if (!peek_status(worker.pid, status)) {
        await_end(local_rank);
        return;
    }
    worker.ended = true;
    exited_(local_rank, status);
}

void LocalWorkers::signal(int local_rank, int signo) {
    const Worker& worker = workers_.at(static_cast<std::size_t>(local_rank));
    if (!worker.ended) ::kill(-worker.pid, signo);
}

void LocalWorkers::signal_all(int signo) {
    for (const Worker& worker : workers_)
        if (!worker.ended) ::kill(-worker.pid, signo);
}

void LocalWorkers::release(bool kill_leftovers) {
    for (Worker& worker : workers_) {
        if (kill_leftovers) ::kill(-worker.pid, SIGKILL);
        ::waitpid(worker.pid, nullptr, WNOHANG);
    }
    workers_.clear();
}

bool LocalWorkers::holds(pid_t pid) const {
    return std::any_of(workers_.begin(), workers_.end(), [pid](const Worker& worker) { return worker.pid == pid; });
}

char LocalWorkers::state_letter(int local_rank) const {
    std::ifstream file("/proc/" + std::to_string(pid(local_rank)) + "/stat");
    std::string line;
    std::getline(file, line);
    // The command name stands in parentheses and may hold anything, parentheses included.
    const std::size_t name_end = line.rfind(')');
    return name_end != std::string::npos && name_end + 2 < line.size() ? line[name_end + 2] : '\0';
}

}  // namespace cpprun
