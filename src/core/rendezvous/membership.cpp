// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/membership.hpp"

#include "core/rendezvous/node_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

namespace cpprun {
namespace {

void leave_lists(RendezvousState& state, const NodeId& node) {
    state.participants.erase(node);
    state.wait_list.erase(node);
    state.redundancy_list.erase(node);
}

/// torch's order is that of NodeId.
void sort_nodes(std::vector<NodeId>& nodes, const RoundLimits& limits) {
    if (limits.rank_order == RankOrder::lexicographic) {
        std::sort(nodes.begin(), nodes.end());
        return;
    }
    std::sort(nodes.begin(), nodes.end(), NaturalLess{});
    if (limits.rank_order != RankOrder::host_first || !limits.host) return;
    const auto host = std::find(nodes.begin(), nodes.end(), *limits.host);
    if (host != nodes.end()) std::rotate(nodes.begin(), host, host + 1);
}

}  // namespace

void remove_node(RendezvousState& state, const NodeId& node, const RoundLimits& limits) {
    const bool took_part = state.participants.contains(node);
    leave_lists(state, node);
    state.last_heartbeats.erase(node);
    if (!took_part) return;
    if (state.complete && state.participants.empty()) {
        state.complete = false;
        ++state.round;
    }
    if (!state.complete && participant_count(state) < limits.min_nodes) state.deadline.reset();
}

void add_participant(RendezvousState& state, const NodeId& node, WallTime heartbeat, const RoundLimits& limits) {
    leave_lists(state, node);
    state.participants[node] = 0;
    state.last_heartbeats[node] = heartbeat;
    if (participant_count(state) == limits.min_nodes) state.deadline = heartbeat + limits.last_call;
}

void add_waiting(RendezvousState& state, const NodeId& node, WallTime heartbeat) {
    leave_lists(state, node);
    state.wait_list.insert(node);
    state.last_heartbeats[node] = heartbeat;
}

void add_spare(RendezvousState& state, const NodeId& node, WallTime heartbeat) {
    leave_lists(state, node);
    state.redundancy_list.insert(node);
    state.last_heartbeats[node] = heartbeat;
}

void complete_round(RendezvousState& state, const WantedRanks& wanted, const RoundLimits& limits) {
    state.complete = true;
    state.deadline.reset();
    std::vector<NodeId> order;
    for (const auto& [node, rank] : state.participants) order.push_back(node);
    sort_nodes(order, limits);
    const bool as_wished = !wanted.empty() && wanted_rank_problems(state, wanted).empty();
    std::int64_t next = 0;
    for (const NodeId& node : order) {
        const auto wish = wanted.find(node);
        state.participants[node] = as_wished && wish != wanted.end() ? wish->second : next;
        ++next;
    }
    if (participant_count(state) < limits.max_nodes) return;
    state.redundancy_list.insert(state.wait_list.begin(), state.wait_list.end());
    state.wait_list.clear();
}

std::vector<std::string> wanted_rank_problems(const RendezvousState& state, const WantedRanks& wanted) {
    std::vector<std::string> problems;
    std::map<std::int64_t, NodeId> first;
    std::vector<std::string> without;
    for (const auto& [node, ignored] : state.participants) {
        const auto wish = wanted.find(node);
        if (wish == wanted.end()) {
            without.push_back(node.addr);
            continue;
        }
        const std::int64_t rank = wish->second;
        if (rank < 0 || rank >= participant_count(state)) {
            problems.push_back(fmt::format("node rank {} of {} is not below the number of nodes, {}", rank, node.addr,
                                           participant_count(state)));
            continue;
        }
        const auto [other, fresh] = first.emplace(rank, node);
        if (!fresh)
            problems.push_back(
                fmt::format("node rank {} is wanted by {} and by {}", rank, other->second.addr, node.addr));
    }
    const bool some = without.size() < state.participants.size();
    if (some && !without.empty())
        problems.push_back(fmt::format("{} of {} nodes have no node rank, {} among them", without.size(),
                                       state.participants.size(), without.front()));
    return problems;
}

}  // namespace cpprun
