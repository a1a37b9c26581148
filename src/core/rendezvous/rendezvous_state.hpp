// SPDX-License-Identifier: BSD-3-Clause
// What all nodes of a c10d job agree on: one value in the store, which torchrun's agents read and write too. Plain
// data; who may change what is membership.hpp's business, and the bytes are state_codec.hpp's.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace cpprun {

/// One agent, as the shared state names it. Its order, field by field, is the order of default ranks (torch's
/// _NodeDesc). A restarted agent is another node.
struct NodeId {
    std::string addr;
    std::int64_t pid = 0;
    std::int64_t local_id = 0;

    auto operator<=>(const NodeId&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm of clang-tidy 14
};

/// UTC, as torch's state has it: microseconds.
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

/// The layouts that torch has had. Nodes of two layouts cannot share a job.
enum class StateDialect : std::uint8_t {
    fqdn,        ///< torch up to 1.13: nodes have `fqdn`, no redundancy list, times without zone
    addr,        ///< 2.0 to 2.2: nodes have `addr`
    redundancy,  ///< 2.3 to 2.5: and there is a redundancy list
    aware,       ///< 2.6 and later: and times carry UTC
};

struct RendezvousState {
    std::int64_t round = 0;
    bool complete = false;                        ///< this round's members are final
    std::optional<WallTime> deadline;             ///< the end of the last call
    bool closed = false;                          ///< this run id is over for good
    std::map<NodeId, std::int64_t> participants;  ///< with ranks, which are all 0 before completion
    std::set<NodeId> wait_list;                   ///< want to be in the next round
    std::set<NodeId> redundancy_list;             ///< spares, while the round is full
    std::map<NodeId, WallTime> last_heartbeats;   ///< of every node in any of the three

    bool operator==(const RendezvousState&) const = default;
};

inline std::int64_t participant_count(const RendezvousState& state) {
    return static_cast<std::int64_t>(state.participants.size());
}

}  // namespace cpprun
