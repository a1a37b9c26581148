// SPDX-License-Identifier: BSD-3-Clause
// The processes of this node's worker group: started together, watched through pidfds, signalled by process group.
#pragma once

#include "core/agent/exit_status.hpp"
#include "core/error.hpp"
#include "runtime/process/spawn.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace cpprun {

class LocalWorkers {
  public:
    /// `exited(local_rank, status)` is called on `io`'s thread once for each worker that ends, never from within
    /// another call of this class.
    LocalWorkers(boost::asio::io_context& io, std::function<void(int, ExitStatus)> exited);
    ~LocalWorkers();

    /// Starts the worker of the next local rank. The pid, or why it could not be started. Its end is seen only after
    /// watch(): what watching needs is left until all run, so that the last does not wait for it, and a child does not
    /// inherit one more descriptor for each sibling before it.
    Result<pid_t> start(const SpawnSpec& spec);

    /// Begins to watch the workers started since the last call. Those that cannot be watched, for want of descriptors,
    /// are killed and forgotten, and the error says so.
    Result<void> watch();

    /// Sends `signo` to the process group of this worker, unless it has ended.
    void signal(int local_rank, int signo);

    /// Sends `signo` to the process groups of all workers that have not ended.
    void signal_all(int signo);

    /// Forgets all workers: reaps those that ended. `kill_leftovers` kills what is left in every worker's process group
    /// first; a worker is not reaped before that, so that its group's number cannot belong to anybody else.
    void release(bool kill_leftovers);

    /// State letter of /proc/PID/stat; 0 when it cannot be read.
    char state_letter(int local_rank) const;

    pid_t pid(int local_rank) const { return workers_.at(static_cast<std::size_t>(local_rank)).pid; }
    /// Whether `pid` is one of them, ended or not.
    bool holds(pid_t pid) const;
    int count() const { return static_cast<int>(workers_.size()); }

  private:
    struct Worker {
        pid_t pid = 0;
        bool ended = false;
        std::unique_ptr<boost::asio::posix::stream_descriptor> pidfd;  ///< none before watch()
    };
    void await_end(int local_rank);
    void ended(int local_rank);

    boost::asio::io_context& io_;
    std::function<void(int, ExitStatus)> exited_;
    std::vector<Worker> workers_;
};

}  // namespace cpprun
