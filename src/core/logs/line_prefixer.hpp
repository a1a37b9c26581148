// SPDX-License-Identifier: BSD-3-Clause
// What the console shows of one teed stream: each line with its prefix (contract 5.3). The rules that are ours:
//  - Bytes pass unchanged but for line ends (\r and \r\n become \n): what is no UTF-8 is not replaced, and no character
//    is cut.
//  - A line without end is shown once its stream has been quiet for a moment, or has ended. Its continuation follows
//    on the same line without a second prefix; if another stream has written meanwhile, the line was ended for that
//    (interrupted()), and the continuation starts a new one with the prefix.
//  - What a carriage return ends is a state of a progress bar, which the next one replaces. Each is a line
//    (ProgressStyle::all, torchrun's way), or the newest is shown now and then: as a line (ProgressStyle::lines), or
//    over the former one (ProgressStyle::in_place). The last one is always shown, unless a line took its place.
#pragma once

#include "core/logs/line_splitter.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

enum class ProgressStyle : std::uint8_t { all, lines, in_place };

class LinePrefixer {
  public:
    using Time = std::chrono::steady_clock::time_point;

    /// How long a line without an end has to be quiet, unless the constructor is told otherwise.
    static constexpr std::chrono::milliseconds quiet_time_default{100};
    /// ProgressStyle::lines shows this many states at once, and then one each interval.
    static constexpr int states_at_once = 10;
    static constexpr std::chrono::milliseconds state_interval{1000};
    /// ProgressStyle::in_place: from one state to the next that is written over it. A stream that has been interrupted
    /// shows its next state after state_interval.
    static constexpr std::chrono::milliseconds in_place_interval{100};

    explicit LinePrefixer(std::string prefix, ProgressStyle style = ProgressStyle::all,
                          std::chrono::milliseconds quiet_time = quiet_time_default)
        : prefix_(std::move(prefix)), style_(style), quiet_time_(quiet_time) {}

    /// The prefix of lines that begin from now on.
    void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

    /// Appends to `out` every line that `bytes` complete. The rest is held: no more than twice
    /// LineSplitter::line_bytes_max. `now` never goes back.
    void feed(std::string_view bytes, std::string& out, Time now);

    /// When show_due() would show something, should nothing be fed until then.
    std::optional<Time> due() const;

    /// Appends what is due: a line that has not ended and has been quiet, or the newest state of a progress bar.
    void show_due(std::string& out, Time now);

    /// Appends all that is held: its stream has ended. A last line without end gets none.
    void finish(std::string& out);

    /// Is the last line that was appended without an end?
    bool line_open() const { return open_; }

    /// The open line has been ended with \n for the sake of another stream.
    void interrupted();

  private:
    void append(std::string_view text, LineEnd end, std::string& out, Time now);
    void append_line(std::string_view text, std::string& out);
    void append_part(std::string_view text, std::string& out, Time now);
    void append_state(std::string_view text, std::string& out, Time now);
    void begin_text(std::string& out);
    void show_state(std::string& out, Time now);
    void count_state(Time now);
    Time next_state() const;

    std::string prefix_;
    ProgressStyle style_;
    std::chrono::milliseconds quiet_time_;
    LineSplitter lines_;
    bool open_ = false;
    bool replaceable_ = false;          ///< the open line is a state of a bar: what comes next is written over it
    bool ended_for_another_ = false;    ///< the end of the line, should it come alone, has been shown already
    bool empty_return_ = false;         ///< a carriage return has just ended nothing at all
    bool in_bar_ = false;               ///< the last end of a line was a carriage return
    std::optional<std::string> state_;  ///< the newest one of a bar, if it has not been shown
    std::optional<Time> partial_due_;
    std::optional<Time> last_state_;
    Time credit_{};  ///< of ProgressStyle::lines, as in the generic cell rate algorithm
};

}  // namespace cpprun
