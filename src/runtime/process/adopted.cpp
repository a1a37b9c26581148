// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/adopted.hpp"

#include "runtime/process/ancestry.hpp"

#include <algorithm>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace cpprun {
namespace {

bool holds(const std::vector<pid_t>& pids, pid_t pid) {
    return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

}  // namespace

Adopted::Adopted() : before_(children_of(::getpid())) {}

std::vector<pid_t> Adopted::strangers(const std::vector<pid_t>& own) const {
    std::vector<pid_t> found;
    for (const pid_t pid : children_of(::getpid()))
        if (!holds(own, pid)) found.push_back(pid);
    return found;
}

void Adopted::reap(const std::vector<pid_t>& own) const {
    for (const pid_t pid : strangers(own)) ::waitpid(pid, nullptr, WNOHANG);
}

std::vector<pid_t> Adopted::living(const std::vector<pid_t>& own) const {
    std::vector<pid_t> found;
    if (::getpid() == 1) return found;
    for (bool changed = true; changed && found.empty();) {
        changed = false;
        for (const pid_t pid : strangers(own)) {
            if (holds(before_, pid)) continue;
            // What a dead one has left may have fallen to us only after we had looked.
            changed = ::waitpid(pid, nullptr, WNOHANG) == pid || changed;
            if (process_state(pid).lives()) found.push_back(pid);
            const std::vector<pid_t> below = descendants_of(pid);
            found.insert(found.end(), below.begin(), below.end());
        }
    }
    return found;
}

void Adopted::kill(const std::vector<pid_t>& own) const {
    if (::getpid() == 1) return;
    for (const pid_t pid : strangers(own))
        if (!holds(before_, pid)) ::kill(pid, SIGKILL);
}

}  // namespace cpprun
