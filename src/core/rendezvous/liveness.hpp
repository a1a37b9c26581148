// SPDX-License-Identifier: BSD-3-Clause
// Who is still there, judged by our own steady clock: a node lives as long as its heartbeat keeps changing. torch's
// agents compare other machines' clocks with their own and so drop healthy nodes when clocks differ.
#pragma once

#include "core/rendezvous/rendezvous_state.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <set>

namespace cpprun {

/// One instant by both clocks. `steady` counts from anywhere and never goes back; `wall` may jump.
struct Moment {
    std::chrono::milliseconds steady{0};
    WallTime wall;
};

class Liveness {
  public:
    /// A node is dead once its heartbeat has not changed for this long.
    explicit Liveness(std::chrono::milliseconds expiry) : expiry_(expiry) {}

    /// Takes note of every heartbeat in the state.
    void observe(const RendezvousState& state, Moment now);
    /// Evidence that needs no waiting: the node's connection is closed.
    void node_gone(const NodeId& node) { gone_.insert(node); }

    bool dead(const NodeId& node, Moment now) const;
    /// When the next of the nodes that `observe` saw last would be found dead.
    std::optional<std::chrono::milliseconds> next_death() const;

    /// The time that the group goes by: never behind our own clock nor behind a heartbeat of anybody's, and never going
    /// back, so that a peer whose clock is ahead does not take our stamp for an old one.
    WallTime group_time(Moment now) const;
    /// The same by the heartbeats alone; none before the first one.
    std::optional<WallTime> heartbeat_time(Moment now) const;
    /// Takes note of our clock.
    void observe_clock(Moment now);

    /// Nodes whose clocks differ from ours by more than `bound`, with the difference (positive: theirs is ahead), each
    /// node once.
    std::map<NodeId, std::chrono::milliseconds> take_skewed(std::chrono::milliseconds bound);

  private:
    struct Seen {
        WallTime stamp;
        std::chrono::milliseconds changed{0};
        bool fresh = false;  ///< we saw it change, so that the stamp is young
        std::chrono::milliseconds ahead{0};
    };

    std::chrono::milliseconds expiry_;
    std::map<NodeId, Seen> seen_;
    std::optional<WallTime> group_zero_;      ///< the group's time at steady 0
    std::optional<WallTime> heartbeat_zero_;  ///< likewise, without our own clock
    std::set<NodeId> gone_;
    std::set<NodeId> told_;
};

}  // namespace cpprun
