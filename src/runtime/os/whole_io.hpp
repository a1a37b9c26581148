// SPDX-License-Identifier: BSD-3-Clause
// Reading and writing all of it, however many calls it takes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

/// How far a write came.
struct Written {
    std::size_t bytes = 0;
    int error = 0;  ///< errno that left the rest unwritten; 0: nothing is left
};

/// Writes `text` to the descriptor `file`; goes on after a part, and after an interruption by a signal.
Written write_whole(int file, std::string_view text);

/// Of a file of the kernel's, such as one in /proc: all that it has. None when it cannot be opened or
/// read, which also happens when the process that it tells of ends meanwhile.
std::optional<std::string> kernel_file(const std::string& path);

}  // namespace cpprun
