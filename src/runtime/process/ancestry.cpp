// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/ancestry.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace cpprun {
namespace {

constexpr int generations_max = 1000;

pid_t parent_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("PPid:")) return static_cast<pid_t>(std::strtol(line.c_str() + 5, nullptr, 10));
    return 0;
}

}  // namespace

bool descends_from(pid_t pid, const std::vector<pid_t>& ancestors) {
    for (int i = 0; i < generations_max && pid > 1; ++i) {
        if (std::find(ancestors.begin(), ancestors.end(), pid) != ancestors.end()) return true;
        pid = parent_of(pid);
    }
    return false;
}

}  // namespace cpprun
