// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/strangers.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <system_error>
#include <vector>

namespace cpprun {
namespace {

std::vector<pid_t> children() {
    std::vector<pid_t> found;
    std::error_code error;
    for (std::filesystem::directory_iterator task("/proc/self/task", error), end; !error && task != end;
         task.increment(error)) {
        std::ifstream list(task->path() / "children");
        for (pid_t child = 0; list >> child;) found.push_back(child);
    }
    return found;
}

}  // namespace

void reap_strangers(const std::function<bool(pid_t)>& ours) {
    for (const pid_t child : children())
        if (!ours(child)) ::waitpid(child, nullptr, WNOHANG);
}

}  // namespace cpprun
