// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/log_layout.hpp"

namespace cpprun {
namespace {

bool unsafe_in_name(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return c == '/' || byte < 0x20 || byte == 0x7f;
}

bool continues_utf8_character(char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

std::string_view cut(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) return text;
    std::size_t end = bytes_max;
    while (end > 0 && continues_utf8_character(text[end])) --end;
    // Bytes that are no UTF-8 at all have no characters to keep whole.
    return text.substr(0, end > 0 ? end : bytes_max);
}

std::string_view stream_name(Std stream) {
    return stream == Std::err ? "stderr.log" : "stdout.log";
}

}  // namespace

std::string run_directory_stem(std::string_view run_id) {
    std::string stem(cut(run_id, run_id_name_bytes_max));
    for (char& c : stem) {
        if (unsafe_in_name(c)) c = '_';
    }
    if (!stem.empty() && stem.front() == '.') stem.front() = '_';
    return stem;
}

std::string attempt_directory_name(int restart_count, int round, bool first_with_count) {
    const std::string name = "attempt_" + std::to_string(restart_count);
    return first_with_count ? name : name + "." + std::to_string(round);
}

std::string join_path(std::string_view directory, std::string_view name) {
    std::string path(directory);
    if (!path.empty() && path.back() != '/') path += '/';
    return path.append(name);
}

std::string worker_directory(std::string_view attempt_directory, int local_rank) {
    return join_path(attempt_directory, std::to_string(local_rank));
}

std::string stream_log_path(std::string_view attempt_directory, int local_rank, Std stream) {
    return join_path(worker_directory(attempt_directory, local_rank), stream_name(stream));
}

std::string error_file_path(std::string_view attempt_directory, int local_rank) {
    return join_path(worker_directory(attempt_directory, local_rank), "error.json");
}

std::string filtered_log_path(std::string_view attempt_directory, Std stream) {
    return join_path(attempt_directory, "filtered_" + std::string(stream_name(stream)));
}

}  // namespace cpprun
