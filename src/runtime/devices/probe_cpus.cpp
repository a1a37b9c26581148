// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/devices/probe_cpus.hpp"

#include "core/process/cgroup_path.hpp"
#include "runtime/devices/system_files.hpp"

#include <algorithm>
#include <charconv>
#include <sched.h>
#include <string_view>
#include <unistd.h>

namespace cpprun {
namespace {

std::vector<int> affinity_mask() {
    // The kernel refuses a mask that is smaller than its own, so it grows until it fits.
    for (std::size_t bits = 1024; bits <= 65536; bits *= 2) {
        std::vector<cpu_set_t> sets(bits / CPU_SETSIZE);
        const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
        if (::sched_getaffinity(0, bytes, sets.data()) != 0) continue;
        std::vector<int> cpus;
        for (std::size_t cpu = 0; cpu < bits; ++cpu)
            if (CPU_ISSET_S(cpu, bytes, sets.data())) cpus.push_back(static_cast<int>(cpu));
        return cpus;
    }
    return {};
}

/// A path that leaves the part we can see ("/../..") is taken for its root.
std::string visible_path(std::string path) {
    if (path.empty() || path.front() != '/' || (path + '/').find("/../") != std::string::npos) return "/";
    return path;
}

/// The directories from `path` below `mount` up to `mount` itself. In a container the path is often the host's and not
/// there; its ancestors are looked at all the same.
std::vector<std::string> up_to_root(const std::string& mount, std::string path) {
    std::vector<std::string> directories;
    while (path.size() > 1 && directories.size() < 128) {
        directories.push_back(mount + path);
        path.resize(path.find_last_of('/'));
    }
    directories.push_back(mount);
    return directories;
}

std::optional<double> positive_number(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && value > 0 ? std::optional(value) : std::nullopt;
}

void take_tighter(CpuFacts& facts, double quota_us, double period_us, const std::string& source) {
    const double cpus = quota_us / period_us;
    if (facts.quota_cpus && *facts.quota_cpus <= cpus) return;
    facts.quota_cpus = cpus;
    facts.quota_source = source;
}

/// cpu.max: "QUOTA PERIOD" in microseconds, or "max PERIOD".
void read_v2_quota(CpuFacts& facts, const std::string& directory) {
    const std::string file = directory + "/cpu.max";
    const auto text = read_small_file(file);
    if (!text) return;
    const std::size_t blank = text->find(' ');
    if (blank == std::string::npos) return;
    const auto quota = positive_number(std::string_view(*text).substr(0, blank));
    const auto period = positive_number(std::string_view(*text).substr(blank + 1));
    if (quota && period) take_tighter(facts, *quota, *period, file);
}

/// cpu.cfs_quota_us is -1 where there is no quota.
void read_v1_quota(CpuFacts& facts, const std::string& directory) {
    const std::string file = directory + "/cpu.cfs_quota_us";
    const auto quota = read_number(file);
    if (!quota || *quota <= 0) return;
    const auto period = read_number(directory + "/cpu.cfs_period_us");
    if (period && *period > 0) take_tighter(facts, static_cast<double>(*quota), static_cast<double>(*period), file);
}

bool holds_cpu_controller(const std::string& controllers) {
    return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

void read_quotas(CpuFacts& facts, const ProbeRoots& roots) {
    const std::string mounts = roots.sys + "/fs/cgroup";
    for (const auto& [controllers, full_path] :
         cgroup_memberships(read_small_file(roots.proc + "/self/cgroup").value_or(""))) {
        const std::string path = visible_path(full_path);
        if (controllers.empty()) {
            for (const char* mount : {"", "/unified"})
                for (const std::string& directory : up_to_root(mounts + mount, path)) read_v2_quota(facts, directory);
        } else if (holds_cpu_controller(controllers)) {
            for (const std::string& mount : {std::string("/cpu"), "/" + controllers})
                for (const std::string& directory : up_to_root(mounts + mount, path)) read_v1_quota(facts, directory);
        }
    }
}

}  // namespace

CpuFacts probe_cpus(const ProbeRoots& roots) {
    CpuFacts facts;
    facts.affinity = affinity_mask();
    facts.online = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    read_quotas(facts, roots);
    return facts;
}

}  // namespace cpprun
