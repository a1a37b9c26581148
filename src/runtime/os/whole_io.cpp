// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/os/whole_io.hpp"

#include "runtime/os/unique_fd.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace cpprun {

Written write_whole(int file, std::string_view text) {
    Written written;
    while (written.bytes < text.size()) {
        const ssize_t put = ::write(file, text.data() + written.bytes, text.size() - written.bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            written.error = put < 0 ? errno : EIO;
            break;
        }
        written.bytes += static_cast<std::size_t>(put);
    }
    return written;
}

std::optional<std::string> kernel_file(const std::string& path) {
    // Not a stream: its iterator throws when the read fails, as it does once the process is gone.
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return std::nullopt;
    std::string text;
    std::array<char, 4096> part;
    for (;;) {
        const ssize_t got = ::read(file.get(), part.data(), part.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) return text;
        text.append(part.data(), static_cast<std::size_t>(got));
    }
}

}  // namespace cpprun
