// SPDX-License-Identifier: BSD-3-Clause
// --duplicate-stdout-filters and --duplicate-stderr-filters: lines of a teed stream that hold one of some texts are
// also written, with their prefix, to one file per attempt (contract 5.6).
#pragma once

#include "core/logs/line_splitter.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

class LineFilter {
  public:
    /// `needles` are plain substrings; an empty one is in every line.
    LineFilter(std::string prefix, std::vector<std::string> needles)
        : prefix_(std::move(prefix)), needles_(std::move(needles)) {}

    /// The prefix of lines that end from now on.
    void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

    /// Appends to `out` the lines completed by `bytes` that match, each with prefix and \n. Looks at whole lines, also
    /// at those that the console got in parts (up to LineSplitter::line_bytes_max).
    void feed(std::string_view bytes, std::string& out);

    /// The stream has ended: a last line without end counts as one, and gets an end, so that the next writer's line
    /// does not stick to it.
    void finish(std::string& out);

  private:
    void append_if_chosen(std::string_view line, std::string& out) const;

    std::string prefix_;
    std::vector<std::string> needles_;
    LineSplitter lines_;
};

}  // namespace cpprun
