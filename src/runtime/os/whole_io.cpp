// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/os/whole_io.hpp"

#include <cerrno>
#include <fstream>
#include <iterator>
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
    std::ifstream file(path);
    if (!file) return std::nullopt;
    return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

}  // namespace cpprun
