// SPDX-License-Identifier: BSD-3-Clause
// Reading small files of /proc and /sys, and trees that only look like them: nothing here blocks, and nothing grows
// without a bound.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

constexpr std::size_t probe_file_bytes_max = std::size_t{64} * 1024;
constexpr std::size_t probe_directory_entries_max = 8192;

/// The first probe_file_bytes_max bytes of a regular file. None when it is not there, is not a regular file or cannot
/// be read; `problem` then says which, e.g. "not there". Does not wait for a writer of a FIFO.
std::optional<std::string> read_small_file(const std::string& path, std::string* problem = nullptr);

/// A whole number at the beginning of a small file, in base 10 or with 0x in base 16. None where there is none.
std::optional<long long> read_number(const std::string& path);

/// Names in a directory, sorted with numbers in number order (card2 before card10), without those that begin with a
/// dot; at most probe_directory_entries_max of them. Empty when it cannot be read.
std::vector<std::string> list_directory(const std::string& path);

/// DIRECTORY/NAME.
std::string entry_of(std::string directory, std::string_view name);

/// Whether something of any kind is at the path, links followed.
bool path_exists(const std::string& path);

/// The number in a name that is `prefix` followed by decimal digits only ("nvidia0"); none otherwise.
std::optional<int> number_after(const std::string& name, const std::string& prefix);

}  // namespace cpprun
