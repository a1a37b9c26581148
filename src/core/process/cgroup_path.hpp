// SPDX-License-Identifier: BSD-3-Clause
// Where a process's cgroup (v2) is in the file system.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// The directories of the cgroup that `own` (/proc/self/cgroup) names, one for each mount in `mounts`
/// (/proc/self/mountinfo) that shows it, in order. Empty where there is no cgroup v2, or none of the mounts reaches
/// down to it. Nothing is looked at: the directories need not be there.
std::vector<std::string> cgroup_directories(std::string_view own, std::string_view mounts);

}  // namespace cpprun
