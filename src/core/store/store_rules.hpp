// SPDX-License-Identifier: BSD-3-Clause
// Keys that mean more to a store than others. Without rules, no request pays for them.
#pragma once

#include <cstdint>
#include <functional>
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

/// What an observer hears.
struct StoreEvent {
    enum class Kind : std::uint8_t {
        value_written,      ///< a client's set, add or multi_set, or its compare_set that stored, of an observed key
        connection_closed,  ///< of a client that is an agent or ever wrote an observed key
    };
    Kind kind = Kind::value_written;
    std::uint64_t client = 0;  ///< StoreClientState::id
    std::string_view key;
    std::string_view value;  ///< what the key has now; large ones too, and gone when the observer returns
};

/// Called in the order in which the events came to be, with the store locked: it must be quick and never call the
/// store.
using StoreObserver = std::function<void(const StoreEvent& event)>;

/// Prefixes of keys as they are on the wire.
struct StoreRules {
    /// A client that asks to write such a key (set, add, compare_set, append, multi_set) is an agent from then on.
    std::vector<std::string> agent_prefixes;
    std::vector<std::string> observed_prefixes;
    /// Such a key goes when the client goes that wrote it last (set, add, append, multi_set, a compare_set that
    /// stored).
    std::vector<std::string> ephemeral_prefixes;
    StoreObserver observer = {};

    bool any() const { return !agent_prefixes.empty() || !ephemeral_prefixes.empty() || observer; }
};

}  // namespace cpprun
