// SPDX-License-Identifier: BSD-3-Clause
// What the console shows of one teed stream: each line with its prefix (contract 5.3). The rules that are ours:
//  - Bytes pass unchanged but for line ends (\r and \r\n become \n): what is no UTF-8 is not replaced, and no character
//    is cut.
//  - A line without end is shown once its stream has been quiet for a moment, or has ended. Its continuation follows
//    on the same line without a second prefix; if another stream has written meanwhile, the line was ended for that
//    (interrupted()), and the continuation starts a new one with the prefix.
#pragma once

#include "core/logs/line_splitter.hpp"

#include <string>
#include <string_view>

namespace cpprun {

class LinePrefixer {
  public:
    explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

    /// Appends to `out` every line that `bytes` complete. The rest is held: no more than LineSplitter::line_bytes_max.
    void feed(std::string_view bytes, std::string& out);

    /// Appends what is held of a line that has not ended: its stream has been quiet.
    void show_partial(std::string& out);

    /// Appends all that is held: its stream has ended. A last line without end gets none.
    void finish(std::string& out);

    /// Would show_partial() show something?
    bool has_partial() const { return lines_.has_partial(); }

    /// Is the last line that was appended without an end?
    bool line_open() const { return open_; }

    /// The open line has been ended with \n for the sake of another stream.
    void interrupted();

  private:
    void append(std::string_view text, bool ended, std::string& out);

    std::string prefix_;
    LineSplitter lines_;
    bool open_ = false;
    bool ended_for_another_ = false;  ///< the end of the line, should it come alone, has been shown already
};

}  // namespace cpprun
