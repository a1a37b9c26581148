// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/local_workers.hpp"

#include "runtime/process/ancestry.hpp"

#include <array>
#include <csignal>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace cpprun {
namespace {

// A descriptor may be readable before the end can be read: the debugger of a worker has the first word about it.
constexpr std::chrono::milliseconds look_again{5};
constexpr std::chrono::milliseconds release_wait_max{500};

}  // namespace

LocalWorkers::LocalWorkers(boost::asio::io_context& io, Containment& containment,
                           std::function<void(int, ExitStatus)> exited)
    : io_(io), containment_(containment), exited_(std::move(exited)), children_(io) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    const int fd = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) return;  // for want of descriptors, which the first worker will say
    children_.assign(fd);
    await_children();
}

LocalWorkers::~LocalWorkers() = default;

void LocalWorkers::await_children() {
    children_.async_wait(boost::asio::posix::descriptor_base::wait_read, [this](boost::system::error_code error) {
        if (error) return;
        std::array<signalfd_siginfo, 16> infos{};
        [[maybe_unused]] const ssize_t got = ::read(children_.native_handle(), infos.data(), sizeof infos);
        tend();
        await_children();
    });
}

void LocalWorkers::tend() {
    std::vector<pid_t> own;
    for (const Worker& worker : workers_)
        if (worker.runs) own.push_back(worker.process->pid());
    containment_.tend(own);
}

Result<void> LocalWorkers::start(const SpawnSpec& spec) {
    BOOST_OUTCOME_TRY(auto process, containment_.start(spec));
    workers_.emplace_back().process = std::move(process);
    return boost::outcome_v2::success();
}

Result<void> LocalWorkers::watch() {
    for (int rank = 0; rank < count(); ++rank) {
        Result<void> watched = watch(rank);
        if (watched) continue;
        drop_from(rank);
        return watched;
    }
    return boost::outcome_v2::success();
}

Result<void> LocalWorkers::watch(int local_rank) {
    Worker& worker = at(local_rank);
    if (worker.descriptor) return boost::outcome_v2::success();
    BOOST_OUTCOME_TRY(worker.process->await_start());
    worker.runs = true;
    Result<UniqueFd> fd = worker.process->watch();
    if (!fd) return failure("cannot watch process " + std::to_string(pid(local_rank)) + ": " + fd.error().message);
    worker.descriptor = std::make_unique<boost::asio::posix::stream_descriptor>(io_, fd.value().release());
    await_end(local_rank);
    return boost::outcome_v2::success();
}

void LocalWorkers::drop_from(int local_rank) {
    for (int rank = local_rank; rank < count(); ++rank) {
        Worker& worker = at(rank);
        if (!worker.runs && rank != local_rank && worker.process->await_start()) worker.runs = true;
        // One that could not be started may have come far enough to leave something, if its guard was killed.
        const auto deadline = std::chrono::steady_clock::now() + release_wait_max;
        for (;;) {
            worker.process->kill();
            const bool gone = (!worker.runs || worker.process->ended()) && worker.process->tree().empty();
            if (gone || std::chrono::steady_clock::now() >= deadline) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        worker.process->release();
    }
    workers_.resize(static_cast<std::size_t>(local_rank));
}

void LocalWorkers::await_end(int local_rank) {
    at(local_rank)
        .descriptor->async_wait(boost::asio::posix::descriptor_base::wait_read,
                                [this, local_rank, of = releases_](boost::system::error_code error) {
                                    if (!error && of == releases_) ended(local_rank);
                                });
}

void LocalWorkers::ended(int local_rank) {
    Worker& worker = at(local_rank);
    const std::optional<ExitStatus> status = worker.process->ended();
    if (status) {
        worker.ended = true;
        exited_(local_rank, *status);
        return;
    }
    if (!worker.again) worker.again = std::make_unique<boost::asio::steady_timer>(io_);
    worker.again->expires_after(look_again);
    worker.again->async_wait([this, local_rank, of = releases_](boost::system::error_code error) {
        if (!error && of == releases_) await_end(local_rank);
    });
}

void LocalWorkers::signal(int local_rank, int signo, StopTarget target) {
    Worker& worker = at(local_rank);
    if (worker.ended) return;
    if (target == StopTarget::group) worker.group_told = true;
    ::kill(target == StopTarget::group ? -worker.process->pid() : worker.process->pid(), signo);
}

void LocalWorkers::signal_trees(const std::vector<int>& local_ranks, int signo) {
    std::vector<const ContainedWorker*> processes;
    processes.reserve(local_ranks.size());
    for (const int rank : local_ranks) processes.push_back(at(rank).process.get());
    const std::vector<std::vector<pid_t>> trees = containment_.trees(processes);
    for (std::size_t i = 0; i < local_ranks.size(); ++i) {
        const Worker& worker = at(local_ranks[i]);
        for (const pid_t member : trees[i])
            if (!worker.group_told || ::getpgid(member) != worker.process->pid()) ::kill(member, signo);
    }
}

void LocalWorkers::kill_tree(int local_rank) {
    at(local_rank).process->kill();
}

void LocalWorkers::kill_trees() {
    std::vector<ContainedWorker*> processes;
    processes.reserve(workers_.size());
    for (const Worker& worker : workers_) processes.push_back(worker.process.get());
    containment_.kill(processes);
}

std::vector<pid_t> LocalWorkers::tree(int local_rank) const {
    return at(local_rank).process->tree();
}

std::vector<std::vector<pid_t>> LocalWorkers::trees() const {
    std::vector<const ContainedWorker*> processes;
    processes.reserve(workers_.size());
    for (const Worker& worker : workers_) processes.push_back(worker.process.get());
    return containment_.trees(processes);
}

std::vector<pid_t> LocalWorkers::left() const {
    std::vector<pid_t> pids;
    for (const Worker& worker : workers_)
        if (!worker.process->ended()) pids.push_back(worker.process->pid());
    for (const std::vector<pid_t>& tree : trees()) pids.insert(pids.end(), tree.begin(), tree.end());
    return pids;
}

void LocalWorkers::signal_all(int signo) {
    for (const Worker& worker : workers_)
        if (!worker.ended) ::kill(-worker.process->pid(), signo);
}

void LocalWorkers::release(bool kill_leftovers) {
    if (kill_leftovers) {
        const auto deadline = std::chrono::steady_clock::now() + release_wait_max;
        for (;;) {
            kill_trees();
            if (left().empty() || std::chrono::steady_clock::now() >= deadline) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    containment_.forget();
    for (const Worker& worker : workers_) worker.process->release();
    workers_.clear();
    ++releases_;
}

char LocalWorkers::state_letter(int local_rank) const {
    return process_state(pid(local_rank)).letter;
}

}  // namespace cpprun
