// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/conf_values.hpp"

#include "core/text/python_number.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cpprun {
namespace {

// steady_clock counts nanoseconds in 64 bits, which is 292 years.
constexpr double seconds_max = 100.0 * 365 * 24 * 3600;

}  // namespace

std::chrono::milliseconds conf_seconds(const std::map<std::string, std::string>& conf, const std::string& key,
                                       std::chrono::seconds otherwise) {
    const auto found = conf.find(key);
    if (found == conf.end()) return otherwise;
    const auto value = parse_python_float(found->second);
    if (!value || std::isnan(*value)) return otherwise;
    const double seconds = std::clamp(*value, 0.0, seconds_max);
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

int conf_count(const std::map<std::string, std::string>& conf, const std::string& key, int otherwise) {
    const auto found = conf.find(key);
    if (found == conf.end()) return otherwise;
    const auto value = parse_python_int(found->second);
    if (!value) return otherwise;
    return static_cast<int>(std::clamp<std::int64_t>(*value, 1, std::numeric_limits<int>::max()));
}

}  // namespace cpprun
