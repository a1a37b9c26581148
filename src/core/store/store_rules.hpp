// SPDX-License-Identifier: BSD-3-Clause
// Keys that mean more to a store than others. Without rules, no request pays for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// True if `key` begins with one of `prefixes`.
inline bool begins_with_any(std::string_view key, const std::vector<std::string>& prefixes) {
    for (const std::string& prefix : prefixes) {
        if (key.starts_with(prefix)) return true;
    }
    return false;
}

/// Prefixes of keys as they are on the wire.
struct StoreRules {
    /// A client that asks to write such a key (set, add, compare_set, append, multi_set) is an agent from then on.
    std::vector<std::string> agent_prefixes;

    bool any() const { return !agent_prefixes.empty(); }
};

}  // namespace cpprun
