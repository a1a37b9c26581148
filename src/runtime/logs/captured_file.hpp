// SPDX-License-Identifier: BSD-3-Clause
// Where a worker writes its stderr so that its last words are known: --capture. A file in memory that has no name, so
// that no disk can be full or far away; what has been copied on is given back to the system.
#pragma once

#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace cpprun {

struct CapturedFile {
    UniqueFd writer;                         ///< for the worker, O_APPEND and O_CLOEXEC
    std::shared_ptr<const UniqueFd> reader;  ///< stays with the launcher
};

/// How much of a captured stream is kept behind what has been copied, in bytes: the last words.
inline constexpr std::size_t last_words_bytes_max = std::size_t{64} << 10U;

/// `name` is what /proc/PID/fd shows.
Result<CapturedFile> make_captured_file(const std::string& name);

/// Gives back the memory of the bytes from `from` to `to`, where whole pages lie between them; they read as zeros then.
/// Returns to where it has been given back.
std::uint64_t release_bytes(int file, std::uint64_t from, std::uint64_t to);

/// Nobody reads the file any more: it grows no further, whoever still holds it.
void seal(int file);

/// The last bytes of a regular file, last_words_bytes_max at most; empty when it cannot be read.
std::string last_bytes(int file);
/// The same of a file by its name; links are not followed.
std::string last_bytes(const std::string& path);

}  // namespace cpprun
