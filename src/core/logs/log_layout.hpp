// SPDX-License-Identifier: BSD-3-Clause
// Where logs and error files lie below the base directory (contract 5.1):
//   <base>/<run id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}
//                                       /filtered_{stdout,stderr}.log
// Only names are made here; runtime/logs/log_files.cpp makes the directories.
#pragma once

#include "core/launch_config.hpp"

#include <string>
#include <string_view>

namespace cpprun {

/// Longest run id, in bytes, that stands whole in a directory name; with the random part it fits any file system.
inline constexpr std::size_t run_id_name_bytes_max = 200;

/// The run id as the beginning of a directory name. Slashes, control bytes and a leading dot become `_`, and what is
/// longer than run_id_name_bytes_max is cut (never inside a UTF-8 character). UUIDs, job numbers and the like stay as
/// they are. torchrun uses the id as it is, so that `a/b` needs a directory `a` and `..` leaves the log directory.
std::string run_directory_stem(std::string_view run_id);

/// `attempt_<restart_count>` for the first start with that count; `attempt_<restart_count>.<round>` for a later one
/// (a membership change does not raise the count). torchrun removes and reuses the first.
std::string attempt_directory_name(int restart_count, int round, bool first_with_count);

/// `a/b` as os.path.join makes it: one slash between the two, also where `directory` ends in one.
std::string join_path(std::string_view directory, std::string_view name);

/// Names of a worker's files in its attempt's directory. `attempt_directory` may be relative and stays so.
std::string worker_directory(std::string_view attempt_directory, int local_rank);
std::string stream_log_path(std::string_view attempt_directory, int local_rank, Std stream);
std::string error_file_path(std::string_view attempt_directory, int local_rank);
/// The attempt's copy of the lines that --duplicate-stdout-filters or --duplicate-stderr-filters choose.
std::string filtered_log_path(std::string_view attempt_directory, Std stream);

}  // namespace cpprun
