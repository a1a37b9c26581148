// SPDX-License-Identifier: BSD-3-Clause
// What cpprun's agents write to each other when one of them hosts the store: wishes to the host, which makes the
// changes of the shared state for all, and its answers. JSON with a version; unknown kinds and fields are passed over,
// so that an older and a newer cpprun understand each other.
#pragma once

#include "core/rendezvous/membership_machine.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

/// "host_12_0", as torch writes a node.
std::string node_text(const NodeId& node);
/// The reverse; the address may hold underscores itself. None: no such text.
std::optional<NodeId> parse_node(std::string_view text);

/// A message of a led agent's. `event` is none for a sign of life. `reads` is the number of the mail that the agent
/// reads next: a host that has forgotten the agent goes on there.
struct AgentWish {
    std::optional<MembershipEvent> event;
    std::optional<std::int64_t> reads = {};
};

/// Only JoinWish, LeaveWish, CloseWish and StayWish are wishes. `serial` tells equal ones apart.
std::string encode_wish(const MembershipEvent& event, std::int64_t serial, std::optional<std::int64_t> reads = {});
std::string encode_sign_of_life(std::int64_t serial, std::optional<std::int64_t> reads = {});
/// None: it is of a kind that is not known here, or no message at all. `from` is who wrote it.
std::optional<AgentWish> decode_wish(const NodeId& from, std::string_view text);

/// How far the forming of a round is, told to those who wait.
struct RoundProgress {
    JoinProgress progress;
};
/// The host does not know the node: it was taken for dead.
struct NotAMember {};
/// The job has failed; whose failure it was.
struct JobFailed {
    std::string text;
};
/// What the node that failed says about it; comes before JobFailed.
struct FailureReport {
    std::string text;  ///< failure_report_bytes_max at most
};
/// The longest report of a failure that nodes tell each other, in bytes.
inline constexpr std::size_t failure_report_bytes_max = 4096;

/// A word of one agent to all others that changes nothing for the job; see PeerNote.
struct PeerWord {
    std::string kind;  ///< peer_name_bytes_max at most, as `host` and `from`
    std::string host;
    std::string from;  ///< the agent
    std::string text;  ///< failure_report_bytes_max at most
};
inline constexpr std::size_t peer_name_bytes_max = 320;

/// What the host answers: a command of its machine for the led node, or one of the others.
using HostMail = std::variant<RoundFormed, JoinEnded, RestartNeeded, RunClosed, Reinstated, RoundProgress, NotAMember,
                              JobFailed, FailureReport, PeerWord>;

/// At most eight nodes are named, so that a message does not grow with the job. Of a round's members it holds the first
/// and the addressee; the others have no name then.
std::string encode_mail(const HostMail& mail, std::int64_t serial);
/// None as above. `to` is the addressee.
std::optional<HostMail> decode_mail(const NodeId& to, std::string_view text);

}  // namespace cpprun
