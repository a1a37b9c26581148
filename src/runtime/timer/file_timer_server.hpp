// SPDX-License-Identifier: BSD-3-Clause
// The FIFO through which workers set torch's file-based timers (contract 8.2; core/timer/file_timer.hpp). Without two
// faults of torchrun's: a client that keeps the FIFO open stops nothing here, and an expired timer is only reported,
// not sent to the launcher too.
#pragma once

#include "core/error.hpp"
#include "core/timer/file_timer.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <string>

namespace cpprun {

/// What the server tells its owner, from the io_context's thread. Neither may destroy the server.
struct FileTimerCallbacks {
    /// A timer ran out. The owner checks that the pid descends from one of its workers, and signals it.
    std::function<void(const ExpiredTimer&)> on_expired;
    /// Something for the log, at warning.
    std::function<void(const std::string&)> on_remark;
};

/// Owns the FIFO and the timers set through it. All calls come from the io_context's thread.
class FileTimerServer {
  public:
    /// Makes a FIFO of mode 0600 at `path` and reads it on `context` until stop(). A FIFO of ours that is there already
    /// is replaced. Error, ErrorKind::failed: something else is there, or it cannot be made.
    static Result<FileTimerServer> start(boost::asio::io_context& context, std::string path,
                                         FileTimerCallbacks callbacks);

    FileTimerServer(FileTimerServer&&) noexcept;
    FileTimerServer& operator=(FileTimerServer&&) noexcept;
    /// As stop().
    ~FileTimerServer();

    /// Drops the timers of a process that has ended.
    void forget(int pid);

    /// Reads no more, drops all timers and removes the FIFO, if it is still ours. No callback comes afterwards. May be
    /// called again.
    void stop();

  private:
    class Session;
    explicit FileTimerServer(std::shared_ptr<Session> session);
    std::shared_ptr<Session> session_;  ///< shared with the pending reads, which outlive us by one turn of the loop
};

/// A path for a FIFO below `directory` that nobody can foresee: DIRECTORY/watchdog_timer_<uuid>.
std::string fresh_timer_path(const std::string& directory);

}  // namespace cpprun
