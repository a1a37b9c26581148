// SPDX-License-Identifier: BSD-3-Clause
// The processes of this node's worker group: started together, watched through descriptors, signalled by process group
// or alone, and their trees with them.
#pragma once

#include "core/agent/exit_status.hpp"
#include "core/error.hpp"
#include "core/launch_config.hpp"
#include "runtime/process/containment.hpp"
#include "runtime/process/spawn.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace cpprun {

class LocalWorkers {
  public:
    /// `exited(local_rank, status)` is called on `io`'s thread once for each worker that ends, never from within
    /// another call of this class. `containment` must outlive this object. While it lives, children that end are
    /// seen to (Containment::tend).
    LocalWorkers(boost::asio::io_context& io, Containment& containment, std::function<void(int, ExitStatus)> exited);
    ~LocalWorkers();

    /// Starts the worker of the next local rank, or says why it cannot be started. Nothing else may be asked of it
    /// before watch(): what watching needs is left until all are on their way, so that the last does not wait for it,
    /// and a child does not inherit one more descriptor for each sibling before it.
    Result<void> start(const SpawnSpec& spec);

    /// Waits until the workers started since the last call run, and begins to watch them. From the first on that could
    /// not be started or cannot be watched, for want of descriptors, they are killed and forgotten; the error says so.
    Result<void> watch();

    /// Sends `signo` to the process group of this worker, or to the worker alone, unless it has ended.
    void signal(int local_rank, int signo, StopTarget target = StopTarget::group);

    /// Sends `signo` to the process groups of all workers that have not ended.
    void signal_all(int signo);

    /// Sends `signo` to those of these workers' trees that signal() has not reached since the start of the attempt.
    void signal_trees(const std::vector<int>& local_ranks, int signo);

    /// SIGKILL for the worker and its tree, or for all of them. What is forked meanwhile may need another call.
    void kill_tree(int local_rank);
    void kill_trees();

    /// What runs of this worker's tree, without the worker itself; of all of them by local rank.
    std::vector<pid_t> tree(int local_rank) const;
    std::vector<std::vector<pid_t>> trees() const;

    /// What runs of all trees and, of the workers themselves, those that have not ended.
    std::vector<pid_t> left() const;

    /// Forgets all workers: reaps those that ended. `kill_leftovers` kills what is left of the trees first, and waits a
    /// moment for its end; otherwise it runs on by itself. A worker is not reaped before that, so that its group's
    /// number cannot belong to anybody else.
    void release(bool kill_leftovers);

    /// A child of ours has changed its state, as SIGCHLD says that somebody else may have read.
    void tend();

    /// State letter of /proc/PID/stat; 0 when it cannot be read.
    char state_letter(int local_rank) const;

    pid_t pid(int local_rank) const { return at(local_rank).process->pid(); }
    int count() const { return static_cast<int>(workers_.size()); }

  private:
    struct Worker {
        std::unique_ptr<ContainedWorker> process;
        bool runs = false;
        bool ended = false;
        bool group_told = false;
        std::unique_ptr<boost::asio::posix::stream_descriptor> descriptor;  ///< none before watch()
        std::unique_ptr<boost::asio::steady_timer> again;  ///< to look once more, where the descriptor says too much
    };
    const Worker& at(int local_rank) const { return workers_.at(static_cast<std::size_t>(local_rank)); }
    Worker& at(int local_rank) { return workers_.at(static_cast<std::size_t>(local_rank)); }
    void await_end(int local_rank);
    void ended(int local_rank);
    Result<void> watch(int local_rank);
    void drop_from(int local_rank);
    void await_children();

    boost::asio::io_context& io_;
    Containment& containment_;
    std::function<void(int, ExitStatus)> exited_;
    boost::asio::posix::stream_descriptor children_;  ///< readable when a child of ours has changed its state
    std::vector<Worker> workers_;
    unsigned releases_ = 0;  ///< a wait that began before the last one is nobody's business
};

}  // namespace cpprun
