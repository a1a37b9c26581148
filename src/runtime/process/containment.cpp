// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/containment.hpp"

#include "runtime/process/cgroup_containment.hpp"
#include "runtime/process/group_containment.hpp"
#include "runtime/process/guard_containment.hpp"

#include <array>
#include <csignal>

namespace cpprun {
namespace {

constexpr std::array<ContainmentTier, 3> best_first{ContainmentTier::cgroup, ContainmentTier::guard,
                                                    ContainmentTier::group};

Result<std::unique_ptr<Containment>> open_tier(ContainmentTier tier) {
    switch (tier) {
        case ContainmentTier::cgroup:
            return CgroupContainment::open();
        case ContainmentTier::guard:
            return GuardContainment::open();
        case ContainmentTier::group:
            break;
    }
    return GroupContainment::open();
}

}  // namespace

std::vector<std::vector<pid_t>> Containment::trees(const std::vector<const ContainedWorker*>& workers) const {
    std::vector<std::vector<pid_t>> found;
    found.reserve(workers.size());
    for (const ContainedWorker* worker : workers) found.push_back(worker->tree());
    return found;
}

void Containment::kill(const std::vector<ContainedWorker*>& workers) {
    for (ContainedWorker* worker : workers) worker->kill();
}

std::string tier_name(ContainmentTier tier) {
    return tier == ContainmentTier::cgroup ? "cgroup" : tier == ContainmentTier::guard ? "guard" : "group";
}

Result<std::unique_ptr<Containment>> open_containment(std::optional<ContainmentTier> asked,
                                                      std::vector<std::string>& refusals) {
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &children, nullptr);
    if (asked) {
        auto opened = open_tier(*asked);
        if (opened) return opened;
        return failure("--containment=" + tier_name(*asked) + ": " + opened.error().message,
                       "without the option the best tier that the machine allows is taken");
    }
    Error last;
    for (const ContainmentTier tier : best_first) {
        auto opened = open_tier(tier);
        if (opened) return opened;
        last = opened.error();
        refusals.push_back("no containment by " + tier_name(tier) + ": " + last.message);
    }
    return last;
}

}  // namespace cpprun
