// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/child_status.hpp"

#include <sys/wait.h>

namespace cpprun {

std::optional<ExitStatus> status_of_child(pid_t pid) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return std::nullopt;
    return info.si_code == CLD_EXITED ? ExitStatus::exited(info.si_status) : ExitStatus::killed_by(info.si_status);
}

}  // namespace cpprun
