// SPDX-License-Identifier: BSD-3-Clause
// Brings one or more nodes through the rounds of a c10d job, by changes of the shared state that torch's agents
// understand. An agent speaks for itself; the agent that hosts the store can speak for all others of its kind. A pure
// function of what has happened so far, with the time as an argument; docs/rendezvous.md has the table of its states.
#pragma once

#include "core/rendezvous/liveness.hpp"
#include "core/rendezvous/membership.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace cpprun {

struct MembershipSettings {
    RoundLimits limits;
    std::chrono::milliseconds join_timeout{600'000};
    std::chrono::milliseconds keep_alive_interval{5'000};
    int keep_alive_attempts = 3;
    /// A node whose heartbeat could not be written for this long must stop its workers: others may take it for dead
    /// after interval x attempts.
    std::chrono::milliseconds fence_after{10'000};
    /// How long a member that is gone from the round may take to come back on the wait list before the others act.
    std::chrono::milliseconds lost_grace{1'000};
    std::uint64_t seed = 1;  ///< of the waits after a lost race
};

/// The members of a complete round, in the order of their group ranks.
struct RoundMembers {
    std::int64_t round = 0;
    std::vector<NodeId> by_rank;
};

// --- events ---

/// This node wants to be in the next round; it leaves the one it is in. `node_rank` is --node-rank, where given.
/// `after_round` is the round that a node whom others speak for was told of last: a wish that has crossed a later one
/// on its way is granted already. `patience` is the node's own join time-out, where it is not this machine's.
struct JoinWish {
    NodeId node;
    std::optional<std::int64_t> node_rank = {};
    std::optional<std::int64_t> after_round = {};
    std::optional<std::chrono::milliseconds> patience = {};
};
/// This node ends: out of everything, without closing the run.
struct LeaveWish {
    NodeId node;
};
/// The run is over for everybody.
struct CloseWish {};
/// These nodes' leaving is no reason to restart after all, e.g. as they have ended well: `node` stays in its round.
struct StayWish {
    NodeId node;
    std::vector<NodeId> without;
};
/// Somebody else may have changed what the store holds.
struct StateChanged {};
/// What the store holds: the answer to ReadState. None: nothing yet.
struct StateSeen {
    std::optional<RendezvousState> state;
};
/// The answer to SwapState: whether our state was taken, and what the store holds now.
struct SwapAnswered {
    bool taken = false;
    std::optional<RendezvousState> state;
};
/// The answer to SwapState or ReadState did not come; the store may or may not have been changed.
struct StoreSilent {};
/// The agent of this node is gone for certain.
struct NodeGone {
    NodeId node;
};
/// --node-rank of nodes that others speak for.
struct RanksWanted {
    WantedRanks ranks;
};
/// The time of the last WakeAt has come.
struct TimeCame {};

using MembershipEvent = std::variant<JoinWish, LeaveWish, CloseWish, StayWish, StateChanged, StateSeen, SwapAnswered,
                                     StoreSilent, NodeGone, RanksWanted, TimeCame>;

// --- commands ---

/// Answered by StateSeen or StoreSilent.
struct ReadState {};
/// Replace the state that was seen last by this one. Answered by SwapAnswered or StoreSilent.
struct SwapState {
    RendezvousState desired;
};
/// Send TimeCame at this steady time; replaces the former wish.
struct WakeAt {
    std::chrono::milliseconds steady{0};
};
/// The round that this node wanted to be in is complete.
struct RoundFormed {
    NodeId node;
    std::int64_t rank = 0;
    std::shared_ptr<const RoundMembers> members;
    bool mixed = false;  ///< for mail: torchrun's agents are among them; the machine does not know
};
/// This node will not be in a round; it is in no list any more.
struct JoinEnded {
    enum class Why : std::uint8_t {
        closed,       ///< the run id is over
        spare_ended,  ///< the run ended while the node was a spare: not a failure
        timed_out,    ///< fewer than the smallest number of nodes came in time
    };
    NodeId node;
    Why why = Why::closed;
};
/// The round of this node cannot go on: it should stop its workers and wish to join again.
struct RestartNeeded {
    enum class Why : std::uint8_t {
        newcomers,  ///< `nodes` wait to be let in
        lost,       ///< `nodes` are gone, dead or without a word
        left_out,   ///< the others are in a later round already
    };
    NodeId node;
    Why why = Why::newcomers;
    std::vector<NodeId> nodes;
};
/// The run was closed while this node's workers run: somewhere it ended.
struct RunClosed {
    NodeId node;
};
/// Others had taken this living node out of its round; it has put itself back.
struct Reinstated {
    NodeId node;
};
/// No heartbeat of this node's could be written for too long: others may go on without it.
struct FenceDue {
    NodeId node;
};
/// The clock of `node` is ahead of ours by this much (negative: behind).
struct ClockSkewed {
    NodeId node;
    std::chrono::milliseconds ahead{0};
};
/// `nodes` wait to be let in, and are held back for a while, as newcomers have ended so many short rounds in a row.
/// Said once for each such while.
struct NewcomersHeldBack {
    std::vector<NodeId> nodes;
    std::chrono::milliseconds wait{0};
    int short_rounds = 0;
};
/// The wanted ranks of this round contradict each other.
struct RankWishesIgnored {
    std::vector<std::string> problems;
};

using MembershipCommand = std::variant<ReadState, SwapState, WakeAt, RoundFormed, JoinEnded, RestartNeeded, RunClosed,
                                       Reinstated, FenceDue, ClockSkewed, NewcomersHeldBack, RankWishesIgnored>;

/// How far the forming of a round is, for those who wait.
struct JoinProgress {
    std::int64_t here = 0;
    bool spare = false;                                    ///< we are a spare: the round is full without us
    bool waiting = false;                                  ///< we are on the wait list: the others must stop first
    std::vector<std::string> nodes;                        ///< host names of those who are here, eight at most
    std::optional<std::chrono::milliseconds> last_call;    ///< until the round is completed as it is
    std::optional<std::chrono::milliseconds> gives_up_in;  ///< until the join time-out
};

class MembershipMachine {
  public:
    explicit MembershipMachine(MembershipSettings settings);

    /// Who hosts the store, for RankOrder::host_first. As long as it is not said, that order is the natural one.
    void host_is(const NodeId& node) { settings_.limits.host = node; }

    /// What to do about these events, all of which came at `now`, in order.
    std::vector<MembershipCommand> handle(const std::vector<MembershipEvent>& events, Moment now);
    std::vector<MembershipCommand> handle(const MembershipEvent& event, Moment now) {
        return handle(std::vector<MembershipEvent>{event}, now);
    }

    /// Where the joining of `node` stands.
    JoinProgress progress(const NodeId& node, Moment now) const;

    /// When (steady) the others were last shown that `node` lives; none for a node that is not spoken for. What guards
    /// its workers while the agent cannot run counts from here.
    std::optional<std::chrono::milliseconds> last_heartbeat(const NodeId& node) const;

    /// What the store held last; none before the first look.
    const std::optional<RendezvousState>& view() const { return view_; }

  private:
    using Milliseconds = std::chrono::milliseconds;

    enum class Phase : std::uint8_t {
        joining,  ///< wants to be in the next round
        running,  ///< is in a complete round
        told,     ///< was told that its round cannot go on, or that the run is closed
        leaving,  ///< wants to be out
    };
    /// A node that this machine speaks for.
    struct Charge {
        Phase phase = Phase::joining;
        std::optional<std::int64_t> leaves_round;  ///< joining: a round that it must not take for the one it wants
        Milliseconds patience{0};
        Milliseconds join_deadline{0};
        Milliseconds heartbeat_written{0};
        WallTime heartbeat_asked;  ///< of the latest SwapState
        Milliseconds heartbeat_asked_at{0};
        bool fenced = false;
        bool reinstating = false;
        std::shared_ptr<const RoundMembers> members;
        std::int64_t rank = 0;
        std::map<NodeId, Milliseconds> missing_since;
        std::set<NodeId> excused;
    };

    void on(const JoinWish& event);
    void on(const LeaveWish& event);
    void on(const CloseWish& event);
    void on(const StayWish& event);
    void on(const StateChanged& event);
    void on(const StateSeen& event);
    void on(const SwapAnswered& event);
    void on(const StoreSilent& event);
    void on(const NodeGone& event);
    void on(const RanksWanted& event);
    void on(const TimeCame& event);

    void adopt(const std::optional<RendezvousState>& state);
    void note_heartbeats();
    void note_deadline();
    void work();

    void deliver();
    void deliver_joining(const NodeId& node, Charge& charge);
    void deliver_running(const NodeId& node, Charge& charge);
    void form_round(const NodeId& node, Charge& charge);
    bool hold_back(const Charge& charge) const;
    bool hold_out(const RendezvousState& state, const NodeId& node, const Charge& charge) const;
    void say_held_back(std::vector<NodeId> nodes);
    void note_end_of_round(bool lets_in);
    std::vector<NodeId> lost_members(const NodeId& node, Charge& charge);
    void tell(const NodeId& node, Charge& charge, RestartNeeded::Why why, std::vector<NodeId> nodes);
    void check_fences();

    void write_if_needed();
    bool edit(RendezvousState& state);
    bool prune(RendezvousState& state);
    bool edit_charge(RendezvousState& state, const NodeId& node, Charge& charge);
    bool edit_joining(RendezvousState& state, const NodeId& node, const Charge& charge);
    bool complete_if_due(RendezvousState& state);
    bool beat(RendezvousState& state, bool writing);
    Milliseconds beat_every() const { return settings_.keep_alive_interval * 3 / 5; }

    bool speaks_for_participant(const RendezvousState& state) const;
    void schedule();
    WallTime stamp_of(const RendezvousState& state, const NodeId& node) const;

    MembershipSettings settings_;
    Liveness liveness_;
    std::mt19937_64 random_;
    std::optional<RendezvousState> view_;
    std::map<NodeId, Charge> charges_;
    std::shared_ptr<const RoundMembers> formed_;  ///< the latest round, shared by the charges
    WantedRanks wanted_ranks_;
    std::set<NodeId> certainly_gone_;
    bool close_wanted_ = false;
    bool busy_ = false;  ///< an answer of the store is outstanding
    Milliseconds asked_at_{0};
    bool stale_ = true;  ///< the state must be read before anything is decided
    int lost_races_ = 0;
    Milliseconds retry_at_{0};
    bool write_waits_ = false;  ///< for retry_at_
    std::optional<WallTime> deadline_seen_;
    Milliseconds last_call_ends_{0};  ///< by our steady clock
    std::int64_t wishes_told_in_ = -1;
    int short_rounds_ = 0;           ///< in a row, that nodes ended which came or went
    std::int64_t ended_round_ = -1;  ///< the latest round that nodes ended which came or went
    Milliseconds round_formed_{0};
    Milliseconds hold_until_{0};
    std::set<NodeId> let_in_;    ///< who waited when that round ended
    Milliseconds hold_told_{0};  ///< the end of the hold that was said last
    std::optional<Milliseconds> wake_;
    Moment now_;
    std::vector<MembershipCommand> out_;
};

}  // namespace cpprun
