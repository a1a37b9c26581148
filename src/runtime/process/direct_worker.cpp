// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/direct_worker.hpp"

#include "runtime/process/child_status.hpp"

#include <cerrno>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cpprun {

Result<UniqueFd> DirectWorker::watch() {
    // glibc 2.36 declares pidfd_open without extern "C".
    UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    if (!fd) return failure(error_text(errno));
    return fd;
}

std::optional<ExitStatus> DirectWorker::ended() {
    return status_of_child(pid_);
}

void DirectWorker::release() {
    ::waitpid(pid_, nullptr, WNOHANG);
}

}  // namespace cpprun
