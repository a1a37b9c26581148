// SPDX-License-Identifier: BSD-3-Clause
// The changes that an agent may make to the shared state. Each keeps what torch's agents rely on: a node is in one of
// the three lists at most, has a heartbeat as long as it is in one, and ranks are there when the round is complete.
#pragma once

#include "core/launch_config.hpp"
#include "core/rendezvous/rendezvous_state.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

/// How many nodes a round takes, and how long it stays open once the smallest number is there.
struct RoundLimits {
    int min_nodes = 1;
    int max_nodes = 1;
    std::chrono::milliseconds last_call{30'000};
    RankOrder rank_order = RankOrder::natural;
    std::optional<NodeId> host = {};  ///< who hosts the store, where known: for RankOrder::host_first
};

/// Ranks that nodes ask for with --node-rank.
using WantedRanks = std::map<NodeId, std::int64_t>;

/// Takes `node` out of everything. An empty complete round ends: the next one begins; the last call ends when fewer
/// than the smallest number are left.
void remove_node(RendezvousState& state, const NodeId& node, const RoundLimits& limits);

/// Puts `node` into the round that is being formed. The last call begins with the node that makes the smallest number;
/// the caller completes the round when it is full.
void add_participant(RendezvousState& state, const NodeId& node, WallTime heartbeat, const RoundLimits& limits);

/// Puts `node` on the wait list: agents that run will restart and let it in.
void add_waiting(RendezvousState& state, const NodeId& node, WallTime heartbeat);

/// Puts `node` among the spares of a full round.
void add_spare(RendezvousState& state, const NodeId& node, WallTime heartbeat);

/// Ends the forming of the round and gives out ranks. Wanted ranks are honoured when all nodes have one and they
/// fit together; else all are in the order of `limits`. In a full round those who wait become spares, since nobody
/// can let them in: torch's own agents would restart again and again on their account.
void complete_round(RendezvousState& state, const WantedRanks& wanted, const RoundLimits& limits);

/// What is wrong with the wanted ranks of the participants: duplicates, ranks out of range, nodes without one among
/// others with. One sentence fragment each; none where nobody has a wish.
std::vector<std::string> wanted_rank_problems(const RendezvousState& state, const WantedRanks& wanted);

}  // namespace cpprun
