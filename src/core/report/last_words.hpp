// SPDX-License-Identifier: BSD-3-Clause
// What is worth showing of the end of a worker's stderr. The bytes come from workers: everything returned is safe for a
// terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

struct LastWords {
    std::vector<std::string> lines;  ///< the last traceback of Python, else the last lines
    std::string exception;           ///< "ValueError: boom": the line that ends the traceback; empty: none
};

/// `lines_max` lines at most (of a longer traceback its first and its last ones), each cut at 240 bytes. Of a line that
/// was written over (carriage returns) the last state counts.
LastWords read_last_words(std::string_view stderr_end, std::size_t lines_max);

}  // namespace cpprun
