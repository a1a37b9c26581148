// SPDX-License-Identifier: BSD-3-Clause
// torch's file-based timers (contract 8.2): a worker writes lines of JSON into a FIFO, each of which sets or releases a
// timer; when one runs out, its process is to get a signal. Reacts to TORCHELASTIC_ENABLE_FILE_TIMER and
// TORCHELASTIC_TIMER_FILE. What comes through the FIFO is hostile input: anyone who may write to it may name any pid,
// so whoever sends the signal must first see that the pid descends from one of our workers.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cpprun {

/// A timer that has run out: `signal` (1 to 64) is due for `pid` (> 1).
struct ExpiredTimer {
    int pid = 0;
    int signal = 0;
    std::string scope;           ///< the name that the worker gave it
    double expiration_time = 0;  ///< seconds since the epoch
};

/// Longest line that a client may write; it writes at most PIPE_BUF bytes so that lines do not mix.
constexpr std::size_t timer_line_bytes_max = 4096;

/// Timers that may be set at the same time.
constexpr std::size_t timers_max = 10'000;

/// All timers that are set, by process and scope. Time is seconds since the epoch, as the client's time.time() gives
/// it.
class FileTimerTable {
  public:
    /// Takes bytes as they come out of the FIFO; a line that is not complete waits for its rest. A line sets the timer
    /// (pid, scope_id) or, with a negative expiration_time, releases it. Lines that make no sense change nothing; each
    /// gives a remark to show, until `remarks_max` have been given in all.
    std::vector<std::string> feed(std::string_view bytes);

    /// Takes out all timers that have run out by `now`. For each process the earliest of those that carry a signal is
    /// returned, in order of pid; timers with signal 0 end without a word.
    std::vector<ExpiredTimer> expired(double now);

    /// Drops the timers of a process that has ended.
    void forget(int pid);

    /// When the next timer runs out; none when none is set.
    std::optional<double> next_expiration() const;

    std::size_t size() const { return timers_.size(); }

    static constexpr int remarks_max = 10;

  private:
    struct Timer {
        double expiration_time = 0;
        int signal = 0;
    };
    using Key = std::pair<int, std::string>;

    void take_line(std::string_view line, std::vector<std::string>& remarks);
    std::string set_or_release(std::string_view line);
    void remark(std::string text, std::vector<std::string>& remarks);

    std::map<Key, Timer> timers_;
    std::string partial_;    ///< the beginning of a line, at most timer_line_bytes_max
    bool skipping_ = false;  ///< inside a line that is too long
    int remarks_given_ = 0;
};

}  // namespace cpprun
