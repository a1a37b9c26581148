// SPDX-License-Identifier: BSD-3-Clause
// Copies workers' log files to the console while the workers write them: --tee (contract 5.3). Also says once when
// their disk is full.
//
// All of it happens on one thread of its own, which is started with the first stream. Why not on the agent's
// io_context: the console may block at any write, because it shares its descriptor with other processes and so must not
// be made non-blocking; and copying hundreds of megabytes a second would keep the agent from its timers and its store.
// The two sides talk by posting; callbacks run on the agent's io_context.
//
// A worker never waits for the console. What the console does not take stays in the file, where it is read from later;
// memory is bounded by about 0.5 MiB per console, 2 MiB per stream that holds endless lines, and 4 MiB per console
// where lines are folded.
#pragma once

#include "core/error.hpp"
#include "core/launch_config.hpp"
#include "core/logs/prefix_template.hpp"
#include "runtime/logs/captured_terminal.hpp"
#include "runtime/os/unique_fd.hpp"

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace cpprun {

struct TailOptions {
    int stdout_fd = 1;          ///< where teed stdout goes; not owned, its flags are left as they are
    int stderr_fd = 2;          ///< the same for stderr; may be the same pipe or terminal as stdout_fd
    bool stdout_color = false;  ///< are prefixes shown in the colour of their rank there?
    bool stderr_color = false;
    bool stdout_in_place = false;  ///< may a progress bar's state be written over the former one there?
    bool stderr_in_place = false;
    ProgressBars progress_bars = ProgressBars::all;
    std::chrono::milliseconds fold_window{0};  ///< equal teed lines of several ranks are shown once; 0: never
    bool use_inotify = true;  ///< false: look at the files every poll_interval, as where inotify has none left
    std::chrono::milliseconds poll_interval{100};
    std::chrono::milliseconds quiet_time{100};  ///< after which a line without an end is shown
    /// What one captured stream may hold that its console has not taken; beyond that the oldest of it is left out.
    std::uint64_t captured_bytes_max = std::uint64_t{64} << 20U;
    /// Hears, on the io_context, what went wrong while the job goes on: one sentence, once for each console, file or
    /// disk. To be logged as an ERROR.
    std::function<void(const std::string&)> on_error = {};
};

/// One log file to follow.
struct TailStream {
    std::string path;                                    ///< must exist; read from its beginning
    std::shared_ptr<CapturedTerminal> terminal = {};     ///< what it writes goes into the captured file first
    std::shared_ptr<const UniqueFd> captured = {};       ///< instead of `path`: copied on byte for byte, no prefix
    int local_rank = 0;                                  ///< for messages
    Std stream = Std::out;                               ///< Std::out goes to stdout_fd, Std::err to stderr_fd
    bool shown = true;                                   ///< false: not copied, only watched for a full disk
    LinePrefix prefix{{}};                               ///< before each line
    std::vector<std::string> filters = {};               ///< lines with one of these go to filtered_file as well
    std::shared_ptr<const UniqueFd> filtered_file = {};  ///< O_APPEND; none: filters are not used
};

class Copier;

/// Belongs to the thread that runs the executor's io_context; all members are called there.
class Tail {
  public:
    Tail(boost::asio::io_context::executor_type executor, TailOptions options);
    /// As stop().
    ~Tail();
    Tail(const Tail&) = delete;
    Tail& operator=(const Tail&) = delete;

    /// Follows a file from its beginning. Failure when it cannot be opened.
    Result<void> add_stream(TailStream stream);

    /// Waits until what the worker's captured stderr holds now has been shown, or its console takes no more, or the
    /// bound is over: what the launcher says next comes after it.
    void catch_up(int local_rank, std::chrono::milliseconds bound = std::chrono::milliseconds(50));

    /// Ends the line that a stream has left open on stderr, if one has: what the launcher says next begins its own.
    /// Waits until that has been written, or its console takes no more, or the bound is over.
    void end_line(std::chrono::milliseconds bound = std::chrono::milliseconds(50));

    /// The launcher's terminal has another size: so have those of the workers. Waits until they have, or the bound is
    /// over, so that a worker that is told by a signal then finds it.
    void resize(const TerminalSize& size, std::chrono::milliseconds bound = std::chrono::milliseconds(50));

    /// The workers of all streams so far have ended: copies what their files hold now, shows last lines without an end,
    /// forgets the streams, and calls `done` on the io_context, never from within drain(). What a worker's child writes
    /// later is in the file only. Takes as long as the console takes: a console that has been stopped by its user
    /// holds the end up, one that is closed does not. stop() gives up waiting. Streams of the next attempt may be
    /// added at once. The waiting counts as outstanding work of the io_context.
    void drain(std::function<void()> done);

    /// Stops copying, after one more try to write what has been read. Drains that are not done are never called back.
    /// Returns within `bound`; should the thread hang in a write to the console even then, it is left behind: all it
    /// touches is its own.
    void stop(std::chrono::milliseconds bound = std::chrono::seconds(1));

  private:
    struct Waiting;

    void start_thread();

    boost::asio::io_context::executor_type executor_;
    TailOptions options_;
    std::shared_ptr<Waiting> waiting_;  ///< drains not done yet; touched on the io_context's thread only
    std::shared_ptr<Copier> copier_;
    std::thread thread_;
};

}  // namespace cpprun
