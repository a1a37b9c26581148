// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/devices/system_files.hpp"

#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace cpprun {
namespace {

// O_NONBLOCK: a FIFO in place of the file must not make us wait for its writer.
UniqueFd open_to_read(const std::string& path) {
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

bool regular(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

std::string why_not_open() {
    return errno == ENOENT || errno == ENOTDIR ? "not there" : error_text(errno);
}

std::optional<std::string> read_all(int fd) {
    std::string text(4096, '\0');
    std::size_t size = 0;
    for (;;) {
        const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        size += static_cast<std::size_t>(got);
        if (got == 0 || size == probe_file_bytes_max) break;
        if (size == text.size()) text.resize(std::min(2 * size, probe_file_bytes_max));
    }
    text.resize(size);
    return text;
}

std::string_view digits_at_end(std::string_view name) {
    const std::size_t last = name.find_last_not_of("0123456789");
    return name.substr(last == std::string_view::npos ? 0 : last + 1);
}

/// "card2" before "card10".
bool name_before(const std::string& a, const std::string& b) {
    const std::string_view a_digits = digits_at_end(a), b_digits = digits_at_end(b);
    const std::string_view a_stem = std::string_view(a).substr(0, a.size() - a_digits.size());
    const std::string_view b_stem = std::string_view(b).substr(0, b.size() - b_digits.size());
    if (a_stem != b_stem) return a_stem < b_stem;
    return a_digits.size() != b_digits.size() ? a_digits.size() < b_digits.size() : a_digits < b_digits;
}

}  // namespace

std::optional<std::string> read_small_file(const std::string& path, std::string* problem) {
    const UniqueFd fd = open_to_read(path);
    std::string why;
    std::optional<std::string> text;
    if (!fd) {
        why = why_not_open();
    } else if (!regular(fd.get())) {
        why = "not a regular file";
    } else {
        text = read_all(fd.get());
        if (!text) why = error_text(errno);
    }
    if (problem) *problem = why;
    return text;
}

std::optional<long long> read_number(const std::string& path) {
    const auto text = read_small_file(path);
    if (!text) return std::nullopt;
    const bool hexadecimal = text->rfind("0x", 0) == 0;
    const char* begin = text->data() + (hexadecimal ? 2 : 0);
    long long value = 0;
    const auto [end, error] = std::from_chars(begin, text->data() + text->size(), value, hexadecimal ? 16 : 10);
    return error == std::errc{} ? std::optional(value) : std::nullopt;
}

std::vector<std::string> list_directory(const std::string& path) {
    std::vector<std::string> names;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (!directory) return names;
    while (names.size() < probe_directory_entries_max) {
        // Only this thread uses this stream, which is all that readdir asks for.
        const dirent* entry = ::readdir(directory.get());  // NOLINT(concurrency-mt-unsafe)
        if (!entry) break;
        if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    std::sort(names.begin(), names.end(), name_before);
    return names;
}

std::string entry_of(std::string directory, std::string_view name) {
    directory += '/';
    directory += name;
    return directory;
}

bool path_exists(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0;
}

std::optional<int> number_after(const std::string& name, const std::string& prefix) {
    if (name.size() == prefix.size() || name.compare(0, prefix.size(), prefix) != 0) return std::nullopt;
    const char* end_of_name = name.data() + name.size();
    if (name[prefix.size()] == '-') return std::nullopt;
    int value = 0;
    const auto [end, error] = std::from_chars(name.data() + prefix.size(), end_of_name, value);
    return error == std::errc{} && end == end_of_name ? std::optional(value) : std::nullopt;
}

}  // namespace cpprun
