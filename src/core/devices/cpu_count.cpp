// SPDX-License-Identifier: BSD-3-Clause
#include "core/devices/cpu_count.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace cpprun {
namespace {

CpuCount without_quota(const CpuFacts& facts) {
    if (facts.affinity.empty()) {
        const int count = std::max(1, facts.online);
        return {count, fmt::format("{} CPU{} online", count, count == 1 ? "" : "s")};
    }
    const int count = static_cast<int>(facts.affinity.size());
    return {count, fmt::format("affinity mask of {} CPU{}", count, count == 1 ? "" : "s")};
}

}  // namespace

CpuCount count_cpus(const CpuFacts& facts, CpuCountRule rule) {
    CpuCount result = without_quota(facts);
    if (rule == CpuCountRule::affinity || !facts.quota_cpus) return result;
    const double quota = *facts.quota_cpus;
    if (!(quota > 0) || quota >= result.count) return result;
    result.count = std::max(1, static_cast<int>(std::ceil(quota)));
    result.reason += fmt::format(", quota of {:.4g} CPUs in {}", quota, facts.quota_source);
    return result;
}

}  // namespace cpprun
