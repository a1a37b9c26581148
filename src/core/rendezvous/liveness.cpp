// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/liveness.hpp"

#include <algorithm>

namespace cpprun {

using std::chrono::milliseconds;

void Liveness::observe(const RendezvousState& state, Moment now) {
    std::erase_if(seen_, [&](const auto& entry) { return !state.last_heartbeats.contains(entry.first); });
    // A node that is out of the state may come back only as what it is: alive.
    std::erase_if(gone_, [&](const NodeId& node) { return !state.last_heartbeats.contains(node); });
    for (const auto& [node, stamp] : state.last_heartbeats) {
        const auto found = seen_.find(node);
        const bool fresh = found != seen_.end() && found->second.stamp != stamp;
        if (found != seen_.end() && !fresh) continue;
        group_zero_ = std::max(group_zero_.value_or(WallTime::min()), stamp - now.steady);
        heartbeat_zero_ = std::max(heartbeat_zero_.value_or(WallTime::min()), stamp - now.steady);
        seen_[node] = {stamp, now.steady, fresh, std::chrono::duration_cast<milliseconds>(stamp - now.wall)};
    }
}

bool Liveness::dead(const NodeId& node, Moment now) const {
    if (gone_.contains(node)) return true;
    const auto found = seen_.find(node);
    return found != seen_.end() && now.steady - found->second.changed >= expiry_;
}

std::optional<milliseconds> Liveness::next_death() const {
    std::optional<milliseconds> next;
    for (const auto& [node, seen] : seen_)
        if (!next || seen.changed + expiry_ < *next) next = seen.changed + expiry_;
    return next;
}

void Liveness::observe_clock(Moment now) {
    group_zero_ = std::max(group_zero_.value_or(WallTime::min()), now.wall - now.steady);
}

WallTime Liveness::group_time(Moment now) const {
    const WallTime own = now.wall;
    return group_zero_ ? std::max(own, *group_zero_ + now.steady) : own;
}

std::optional<WallTime> Liveness::heartbeat_time(Moment now) const {
    return heartbeat_zero_ ? std::optional(*heartbeat_zero_ + now.steady) : std::nullopt;
}

std::map<NodeId, milliseconds> Liveness::take_skewed(milliseconds bound) {
    std::map<NodeId, milliseconds> skewed;
    for (const auto& [node, seen] : seen_) {
        // A stamp from before our first look may be old; it proves only that a clock is ahead.
        const bool certain = seen.fresh || seen.ahead > milliseconds{0};
        const milliseconds size = seen.ahead < milliseconds{0} ? -seen.ahead : seen.ahead;
        if (certain && size > bound && told_.insert(node).second) skewed.emplace(node, seen.ahead);
    }
    return skewed;
}

}  // namespace cpprun
