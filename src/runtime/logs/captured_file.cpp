// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/logs/captured_file.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace cpprun {
namespace {

constexpr std::uint64_t page_bytes = 4096;

Error cannot_make(int error) {
    return failure("cannot make a file in memory for a worker's stderr: " + error_text(error));
}

}  // namespace

Result<CapturedFile> make_captured_file(const std::string& name) {
    constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    UniqueFd reader(::memfd_create(name.c_str(), flags | MFD_NOEXEC_SEAL));
    if (!reader && errno == EINVAL) reader.reset(::memfd_create(name.c_str(), flags));  // before Linux 6.3
    if (!reader) return cannot_make(errno);
    // Opened anew: since Linux 6.14 inotify hears nothing of what is written through memfd_create's own descriptor.
    const std::string path = "/proc/self/fd/" + std::to_string(reader.get());
    UniqueFd writer(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!writer) return cannot_make(errno);
    return CapturedFile{std::move(writer), std::make_shared<const UniqueFd>(std::move(reader))};
}

std::uint64_t release_bytes(int file, std::uint64_t from, std::uint64_t to) {
    from -= from % page_bytes;
    to -= to % page_bytes;
    if (to <= from) return from;
    const auto bytes = static_cast<off_t>(to - from);
    ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from), bytes);
    return to;
}

void seal(int file) {
    ::fcntl(file, F_ADD_SEALS, F_SEAL_GROW);
}

std::string last_bytes(int file) {
    struct stat facts {};
    if (::fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
    const auto size = static_cast<std::uint64_t>(facts.st_size);
    std::string text(std::min<std::uint64_t>(size, last_words_bytes_max), '\0');
    std::uint64_t at = size - text.size();
    std::size_t done = 0;
    while (done < text.size()) {
        const ssize_t got = ::pread(file, text.data() + done, text.size() - done, static_cast<off_t>(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += static_cast<std::size_t>(got);
    }
    text.resize(done);
    return text;
}

std::string last_bytes(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    return file ? last_bytes(file.get()) : std::string();
}

}  // namespace cpprun
