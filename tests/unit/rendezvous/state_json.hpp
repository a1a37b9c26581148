// SPDX-License-Identifier: BSD-3-Clause
// States as JSON, for test data and for tests in Python: nodes are [address, pid, local id], in front of a rank or a
// time where there is one; times are microseconds since 1970.
#pragma once

#include "core/rendezvous/rendezvous_state.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cpprun::test {

using Json = nlohmann::ordered_json;

inline constexpr std::array<std::string_view, 4> dialect_names{"fqdn", "addr", "redundancy", "aware"};

inline std::string name_of_dialect(StateDialect dialect) {
    return std::string(dialect_names[static_cast<std::size_t>(dialect)]);
}

inline StateDialect dialect_of_name(std::string_view name) {
    for (std::size_t i = 0; i < dialect_names.size(); ++i) {
        if (dialect_names[i] == name) return static_cast<StateDialect>(i);
    }
    throw std::invalid_argument("no dialect: " + std::string(name));
}

inline Json json_of(const NodeId& node) {
    return {node.addr, node.pid, node.local_id};
}
inline NodeId node_of(const Json& json) {
    return {json.at(0).get<std::string>(), json.at(1).get<std::int64_t>(), json.at(2).get<std::int64_t>()};
}

inline std::int64_t ticks(WallTime time) {
    return time.time_since_epoch().count();
}
inline WallTime time_of(const Json& json) {
    return WallTime{std::chrono::microseconds{json.get<std::int64_t>()}};
}

inline Json json_of(const RendezvousState& state) {
    Json json{{"round", state.round},
              {"complete", state.complete},
              {"deadline", state.deadline ? Json(ticks(*state.deadline)) : Json(nullptr)},
              {"closed", state.closed},
              {"participants", Json::array()},
              {"wait_list", Json::array()},
              {"redundancy_list", Json::array()},
              {"last_heartbeats", Json::array()}};
    const auto add = [&](const char* list, const NodeId& node, auto... more) {
        Json entry = json_of(node);
        (entry.push_back(more), ...);
        json[list].push_back(std::move(entry));
    };
    for (const auto& [node, rank] : state.participants) add("participants", node, rank);
    for (const auto& node : state.wait_list) add("wait_list", node);
    for (const auto& node : state.redundancy_list) add("redundancy_list", node);
    for (const auto& [node, time] : state.last_heartbeats) add("last_heartbeats", node, ticks(time));
    return json;
}

inline RendezvousState state_of(const Json& json) {
    RendezvousState state;
    state.round = json.at("round").get<std::int64_t>();
    state.complete = json.at("complete").get<bool>();
    if (!json.at("deadline").is_null()) state.deadline = time_of(json.at("deadline"));
    state.closed = json.at("closed").get<bool>();
    for (const Json& entry : json.at("participants")) {
        state.participants.emplace(node_of(entry), entry.at(3).get<std::int64_t>());
    }
    for (const Json& entry : json.at("wait_list")) state.wait_list.insert(node_of(entry));
    for (const Json& entry : json.at("redundancy_list")) state.redundancy_list.insert(node_of(entry));
    for (const Json& entry : json.at("last_heartbeats")) {
        state.last_heartbeats.emplace(node_of(entry), time_of(entry.at(3)));
    }
    return state;
}

}  // namespace cpprun::test
