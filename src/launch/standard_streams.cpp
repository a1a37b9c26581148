// SPDX-License-Identifier: BSD-3-Clause
#include "launch/standard_streams.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace cpprun {

void open_missing_standard_streams() {
    for (int fd = 0; fd <= 2; ++fd) {
        if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        // The lowest free descriptor is this one, since those below it are open.
        if (::open("/dev/null", O_RDWR) != fd) return;
    }
}

}  // namespace cpprun
