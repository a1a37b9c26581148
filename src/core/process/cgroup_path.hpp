// SPDX-License-Identifier: BSD-3-Clause
// Where a process's cgroup (v2) is in the file system.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// One line of /proc/self/cgroup, "ID:CONTROLLERS:PATH".
struct CgroupMembership {
    std::string controllers;  ///< separated by commas; empty for cgroup v2
    std::string path;         ///< as it stands there, which may be of a part of the tree that cannot be seen
};

/// All of /proc/self/cgroup, whose text is `own`, in order; lines of another shape are left out.
std::vector<CgroupMembership> cgroup_memberships(std::string_view own);

/// The directories of the cgroup that `own` (/proc/self/cgroup) names, one for each mount in `mounts`
/// (/proc/self/mountinfo) that shows it, in order. Empty where there is no cgroup v2, or none of the mounts reaches
/// down to it. Nothing is looked at: the directories need not be there.
std::vector<std::string> cgroup_directories(std::string_view own, std::string_view mounts);

}  // namespace cpprun
