// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/membership_machine.hpp"

#include <algorithm>
#include <utility>

namespace cpprun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds first_retry{2};
constexpr int retry_doublings_max = 7;
constexpr std::size_t names_shown = 8;
constexpr milliseconds silence_pause{250};
constexpr milliseconds answer_age_max{2'000};
constexpr milliseconds skew_worth_a_word{2'000};
// A node that comes and goes must not restart the others all the time: each round that newcomers end within a minute
// makes the next one last longer.
constexpr milliseconds short_round{60'000};
constexpr milliseconds first_hold{1'000};
constexpr int hold_doublings_max = 5;

bool listed(const RendezvousState& state, const NodeId& node) {
    return state.participants.contains(node) || state.wait_list.contains(node) || state.redundancy_list.contains(node);
}

/// The members by rank; empty if the ranks have gaps, since somebody has left already.
std::vector<NodeId> members_by_rank(const RendezvousState& state) {
    std::vector<NodeId> by_rank(state.participants.size());
    std::vector<bool> taken(state.participants.size(), false);
    for (const auto& [node, rank] : state.participants) {
        if (rank < 0 || rank >= participant_count(state) || taken[static_cast<std::size_t>(rank)]) return {};
        taken[static_cast<std::size_t>(rank)] = true;
        by_rank[static_cast<std::size_t>(rank)] = node;
    }
    return by_rank;
}

}  // namespace

MembershipMachine::MembershipMachine(MembershipSettings settings)
    : settings_(settings),
      liveness_(settings.keep_alive_interval * settings.keep_alive_attempts),
      random_(settings.seed) {}

std::vector<MembershipCommand> MembershipMachine::handle(const std::vector<MembershipEvent>& events, Moment now) {
    out_.clear();
    now_ = now;
    liveness_.observe_clock(now);
    for (const MembershipEvent& event : events) std::visit([this](const auto& e) { on(e); }, event);
    work();
    schedule();
    return std::move(out_);
}

// --- events ---

void MembershipMachine::on(const JoinWish& event) {
    Charge& charge = charges_[event.node];
    if (charge.phase == Phase::running && event.after_round && *event.after_round < charge.members->round) return;
    // A round that the node was in, or that others completed with it, is not the one it wants.
    const bool in_round = view_ && view_->complete && view_->participants.contains(event.node);
    charge.leaves_round = charge.members ? std::optional(charge.members->round)
                          : in_round     ? std::optional(view_->round)
                                         : std::nullopt;
    charge.phase = Phase::joining;
    charge.patience = event.patience.value_or(settings_.join_timeout);
    charge.join_deadline = now_.steady + charge.patience;
    charge.missing_since.clear();
    charge.excused.clear();
    charge.reinstating = false;
    if (event.node_rank) wanted_ranks_[event.node] = *event.node_rank;
}

void MembershipMachine::on(const LeaveWish& event) {
    const auto found = charges_.find(event.node);
    if (found != charges_.end()) found->second.phase = Phase::leaving;
}

void MembershipMachine::on(const CloseWish& /*event*/) {
    close_wanted_ = true;
}

void MembershipMachine::on(const StayWish& event) {
    const auto found = charges_.find(event.node);
    if (found == charges_.end() || found->second.phase != Phase::told) return;
    found->second.phase = Phase::running;
    found->second.excused.insert(event.without.begin(), event.without.end());
}

void MembershipMachine::on(const StateChanged& /*event*/) {
    stale_ = true;
}

void MembershipMachine::on(const StateSeen& event) {
    busy_ = false;
    adopt(event.state);
}

void MembershipMachine::on(const SwapAnswered& event) {
    busy_ = false;
    if (event.taken) {
        lost_races_ = 0;
        for (auto& [node, charge] : charges_)
            if (event.state && listed(*event.state, node)) charge.heartbeat_written = now_.steady;
    } else {
        const int doublings = std::min(lost_races_++, retry_doublings_max);
        std::uniform_int_distribution<milliseconds::rep> pause(0, first_retry.count() << doublings);
        retry_at_ = now_.steady + milliseconds(pause(random_));
    }
    adopt(event.state);
}

void MembershipMachine::on(const StoreSilent& /*event*/) {
    busy_ = false;
    stale_ = true;
    retry_at_ = now_.steady + silence_pause;
}

void MembershipMachine::on(const NodeGone& event) {
    if (charges_.erase(event.node) > 0) wanted_ranks_.erase(event.node);
    liveness_.node_gone(event.node);
    certainly_gone_.insert(event.node);
}

void MembershipMachine::on(const RanksWanted& event) {
    for (const auto& [node, rank] : event.ranks) wanted_ranks_[node] = rank;
}

void MembershipMachine::on(const TimeCame& /*event*/) {
    wake_.reset();
}

void MembershipMachine::adopt(const std::optional<RendezvousState>& state) {
    // An answer that lay around while this process stood still may be the past.
    stale_ = now_.steady - asked_at_ > answer_age_max;
    view_ = state.value_or(RendezvousState{});
    liveness_.observe(*view_, now_);
    note_heartbeats();
    note_deadline();
    for (const auto& [node, ahead] : liveness_.take_skewed(skew_worth_a_word))
        if (!charges_.contains(node)) out_.emplace_back(ClockSkewed{node, ahead});
}

/// A change whose answer was lost may have been made all the same: then its heartbeats are in the state.
void MembershipMachine::note_heartbeats() {
    for (auto& [node, charge] : charges_) {
        if (charge.heartbeat_asked_at <= charge.heartbeat_written) continue;
        const auto stamp = view_->last_heartbeats.find(node);
        if (stamp != view_->last_heartbeats.end() && stamp->second == charge.heartbeat_asked)
            charge.heartbeat_written = charge.heartbeat_asked_at;
    }
}

void MembershipMachine::note_deadline() {
    if (view_->deadline == deadline_seen_) return;
    deadline_seen_ = view_->deadline;
    if (!deadline_seen_) return;
    // By the clocks of those who set it: ours may be ahead of theirs and would cut the last call short.
    const WallTime time = liveness_.heartbeat_time(now_).value_or(liveness_.group_time(now_));
    const auto left = std::chrono::ceil<milliseconds>(*deadline_seen_ - time);
    last_call_ends_ = now_.steady + std::clamp(left, milliseconds{0}, settings_.limits.last_call);
}

void MembershipMachine::work() {
    check_fences();
    if (busy_ || (charges_.empty() && !close_wanted_)) return;
    if (stale_ || !view_) {
        if (now_.steady < retry_at_) return;
        out_.emplace_back(ReadState{});
        asked_at_ = now_.steady;
        busy_ = true;
        return;
    }
    deliver();
    write_if_needed();
}

// --- what the nodes hear ---

void MembershipMachine::deliver() {
    for (auto entry = charges_.begin(); entry != charges_.end();) {
        const auto next = std::next(entry);
        auto& [node, charge] = *entry;
        switch (charge.phase) {
            case Phase::joining:
                deliver_joining(node, charge);
                break;
            case Phase::running:
                deliver_running(node, charge);
                break;
            case Phase::told:
                break;
            case Phase::leaving:
                if (!listed(*view_, node)) charges_.erase(entry);
                break;
        }
        entry = next;
    }
}

void MembershipMachine::deliver_joining(const NodeId& node, Charge& charge) {
    const RendezvousState& view = *view_;
    if (view.closed) {
        const bool spare = view.redundancy_list.contains(node);
        out_.emplace_back(JoinEnded{node, spare ? JoinEnded::Why::spare_ended : JoinEnded::Why::closed});
        charge.phase = Phase::leaving;
        return;
    }
    if (view.complete && view.participants.contains(node) && charge.leaves_round != view.round) {
        form_round(node, charge);
        return;
    }
    if (view.redundancy_list.contains(node)) {
        charge.join_deadline = now_.steady + charge.patience;  // a spare waits as long as the run lasts
        return;
    }
    if (now_.steady < charge.join_deadline) return;
    out_.emplace_back(JoinEnded{node, JoinEnded::Why::timed_out});
    charge.phase = Phase::leaving;
}

void MembershipMachine::form_round(const NodeId& node, Charge& charge) {
    const RendezvousState& view = *view_;
    if (!formed_ || formed_->round != view.round) {
        std::vector<NodeId> by_rank = members_by_rank(view);
        if (by_rank.empty() || participant_count(view) < settings_.limits.min_nodes) {
            charge.leaves_round = view.round;
            return;
        }
        formed_ = std::make_shared<const RoundMembers>(RoundMembers{view.round, std::move(by_rank)});
        round_formed_ = now_.steady;
        std::erase_if(certainly_gone_, [&](const NodeId& gone) { return !view.participants.contains(gone); });
    }
    charge.phase = Phase::running;
    charge.members = formed_;
    charge.rank = view.participants.at(node);
    charge.fenced = false;
    out_.emplace_back(RoundFormed{node, charge.rank, charge.members, false});
}

void MembershipMachine::deliver_running(const NodeId& node, Charge& charge) {
    const RendezvousState& view = *view_;
    if (view.closed) {
        charge.phase = Phase::told;
        out_.emplace_back(RunClosed{node});
        return;
    }
    const bool room = participant_count(view) < settings_.limits.max_nodes;
    const bool member = view.participants.contains(node);
    if (view.round != charge.members->round || !view.complete || (!member && !room)) {
        tell(node, charge, RestartNeeded::Why::left_out, {});
        return;
    }
    if (member) charge.reinstating = false;
    if (!view.wait_list.empty() && room) {
        std::vector<NodeId> newcomers(view.wait_list.begin(), view.wait_list.end());
        if (!hold_back(charge)) {
            tell(node, charge, RestartNeeded::Why::newcomers, std::move(newcomers));
            return;
        }
        say_held_back(std::move(newcomers));
    }
    std::vector<NodeId> lost = lost_members(node, charge);
    if (!lost.empty()) tell(node, charge, RestartNeeded::Why::lost, std::move(lost));
}

bool MembershipMachine::hold_back(const Charge& charge) const {
    if (now_.steady >= hold_until_ || ended_round_ == charge.members->round) return false;
    const std::vector<NodeId>& members = charge.members->by_rank;
    // A member of this round that waits has stopped its workers: nothing is gained by waiting.
    return std::none_of(members.begin(), members.end(),
                        [&](const NodeId& member) { return view_->wait_list.contains(member); });
}

/// Whether a newcomer has to wait although a round forms: those who were there before are enough without it, and the
/// last rounds broke since nodes came and went.
bool MembershipMachine::hold_out(const RendezvousState& state, const NodeId& node, const Charge& charge) const {
    if (charge.members || let_in_.contains(node) || short_rounds_ < 2 || now_.steady >= hold_until_) return false;
    std::int64_t others = 0;
    for (const auto& [other_node, other] : charges_) others += other.members && other.phase != Phase::leaving ? 1 : 0;
    for (const auto& [member, rank] : state.participants) others += charges_.contains(member) ? 0 : 1;
    return others >= settings_.limits.min_nodes;
}

void MembershipMachine::say_held_back(std::vector<NodeId> nodes) {
    if (std::exchange(hold_told_, hold_until_) == hold_until_) return;
    out_.emplace_back(NewcomersHeldBack{std::move(nodes), hold_until_ - now_.steady, short_rounds_});
}

std::vector<NodeId> MembershipMachine::lost_members(const NodeId& node, Charge& charge) {
    std::vector<NodeId> lost;
    // Only the sizes need to be looked at as long as nobody is missing.
    if (view_->participants.size() >= charge.members->by_rank.size()) {
        charge.missing_since.clear();
        return lost;
    }
    for (const NodeId& member : charge.members->by_rank) {
        if (member == node || charge.excused.contains(member)) continue;
        if (view_->participants.contains(member) || charges_.contains(member)) {
            charge.missing_since.erase(member);
            continue;
        }
        const auto since = charge.missing_since.try_emplace(member, now_.steady).first->second;
        const bool certain = certainly_gone_.contains(member);
        if (certain || now_.steady - since >= settings_.lost_grace) lost.push_back(member);
    }
    return lost;
}

void MembershipMachine::tell(const NodeId& node, Charge& charge, RestartNeeded::Why why, std::vector<NodeId> nodes) {
    charge.phase = Phase::told;
    if (why != RestartNeeded::Why::left_out && charge.members == formed_)
        note_end_of_round(why == RestartNeeded::Why::newcomers);
    out_.emplace_back(RestartNeeded{node, why, std::move(nodes)});
}

/// Once for all nodes that this machine speaks for.
void MembershipMachine::note_end_of_round(bool lets_in) {
    if (std::exchange(ended_round_, formed_->round) == formed_->round) return;
    let_in_.clear();
    if (lets_in) let_in_.insert(view_->wait_list.begin(), view_->wait_list.end());
    const bool brief = now_.steady - round_formed_ < short_round;
    short_rounds_ = brief ? short_rounds_ + 1 : 0;
    const int doublings = std::min(short_rounds_ - 1, hold_doublings_max);
    hold_until_ = short_rounds_ == 0 ? milliseconds{0} : now_.steady + first_hold * (1 << doublings);
}

void MembershipMachine::check_fences() {
    if (settings_.limits.max_nodes == 1) return;
    for (auto& [node, charge] : charges_) {
        const bool in_round = charge.phase == Phase::running || charge.phase == Phase::told;
        if (!in_round || charge.fenced || now_.steady - charge.heartbeat_written < settings_.fence_after) continue;
        charge.fenced = true;
        out_.emplace_back(FenceDue{node});
    }
}

// --- what the store is asked for ---

void MembershipMachine::write_if_needed() {
    write_waits_ = false;
    RendezvousState desired = *view_;
    if (!edit(desired)) return;
    if (now_.steady < retry_at_) {
        write_waits_ = true;
        return;
    }
    for (auto& [node, charge] : charges_) {
        const auto stamp = desired.last_heartbeats.find(node);
        if (stamp == desired.last_heartbeats.end()) continue;
        charge.heartbeat_asked = stamp->second;
        charge.heartbeat_asked_at = now_.steady;
    }
    out_.emplace_back(SwapState{std::move(desired)});
    asked_at_ = now_.steady;
    busy_ = true;
}

bool MembershipMachine::edit(RendezvousState& state) {
    bool changed = prune(state);
    if (close_wanted_ && !state.closed) {
        state.closed = true;
        changed = true;
    }
    for (auto& [node, charge] : charges_) changed |= edit_charge(state, node, charge);
    if (state.closed) return changed;
    changed |= complete_if_due(state);
    changed |= beat(state, changed);
    return changed;
}

bool MembershipMachine::prune(RendezvousState& state) {
    std::vector<NodeId> dead;
    for (const auto& [node, heartbeat] : state.last_heartbeats)
        if (!charges_.contains(node) && liveness_.dead(node, now_)) dead.push_back(node);
    for (const NodeId& node : dead) {
        remove_node(state, node, settings_.limits);
        certainly_gone_.insert(node);
    }
    return !dead.empty();
}

bool MembershipMachine::edit_charge(RendezvousState& state, const NodeId& node, Charge& charge) {
    switch (charge.phase) {
        case Phase::leaving:
            if (!listed(state, node)) return false;
            remove_node(state, node, settings_.limits);
            return true;
        case Phase::joining:
            return !state.closed && edit_joining(state, node, charge);
        case Phase::running: {
            const bool away = state.complete && state.round == charge.members->round &&
                              !state.participants.contains(node) &&
                              participant_count(state) < settings_.limits.max_nodes;
            if (!away || state.closed) return false;
            state.participants[node] = charge.rank;
            state.last_heartbeats[node] = stamp_of(state, node);
            state.wait_list.erase(node);
            state.redundancy_list.erase(node);
            if (!std::exchange(charge.reinstating, true)) out_.emplace_back(Reinstated{node});
            return true;
        }
        case Phase::told:
            return false;
    }
    return false;
}

bool MembershipMachine::edit_joining(RendezvousState& state, const NodeId& node, const Charge& charge) {
    const RoundLimits& limits = settings_.limits;
    bool changed = false;
    if (state.complete && charge.leaves_round == state.round && state.participants.contains(node)) {
        remove_node(state, node, limits);
        changed = true;
    }
    const bool room = participant_count(state) < limits.max_nodes;
    if (!state.complete) {
        if (state.participants.contains(node) || !room) return changed;
        if (hold_out(state, node, charge)) {
            say_held_back({node});
            return changed;
        }
        add_participant(state, node, stamp_of(state, node), limits);
        return true;
    }
    if (state.participants.contains(node)) return changed;
    const bool spare = state.redundancy_list.contains(node);
    if (!room) {
        if (spare) return changed;
        add_spare(state, node, stamp_of(state, node));
        return true;
    }
    // A free seat belongs to those who wait already, e.g. to the member that left it in order to restart.
    const auto expected = participant_count(state) + static_cast<std::int64_t>(state.wait_list.size());
    if (state.wait_list.contains(node) || (spare && expected >= limits.max_nodes)) return changed;
    add_waiting(state, node, stamp_of(state, node));
    return true;
}

bool MembershipMachine::complete_if_due(RendezvousState& state) {
    const RoundLimits& limits = settings_.limits;
    if (state.complete || participant_count(state) < limits.min_nodes || !speaks_for_participant(state)) return false;
    const bool full = participant_count(state) >= limits.max_nodes;
    if (!full && !state.deadline) {
        // Nodes with another idea of the smallest number have passed it without beginning the last call.
        state.deadline = liveness_.group_time(now_) + limits.last_call;
        return true;
    }
    const bool over = state.deadline && state.deadline == deadline_seen_ && now_.steady >= last_call_ends_;
    if (!full && !over && limits.last_call.count() > 0) return false;
    if (wishes_told_in_ != state.round) {
        wishes_told_in_ = state.round;
        std::vector<std::string> problems = wanted_rank_problems(state, wanted_ranks_);
        if (!problems.empty()) out_.emplace_back(RankWishesIgnored{std::move(problems)});
    }
    complete_round(state, wanted_ranks_, limits);
    return true;
}

bool MembershipMachine::beat(RendezvousState& state, bool writing) {
    bool due = false;
    for (const auto& [node, charge] : charges_)
        due = due || (state.last_heartbeats.contains(node) && now_.steady - charge.heartbeat_written >= beat_every());
    if (!due && !writing) return false;
    for (const auto& [node, charge] : charges_)
        if (state.last_heartbeats.contains(node)) state.last_heartbeats[node] = stamp_of(state, node);
    return due;
}

bool MembershipMachine::speaks_for_participant(const RendezvousState& state) const {
    return std::any_of(charges_.begin(), charges_.end(), [&](const auto& entry) {
        return entry.second.phase == Phase::joining && state.participants.contains(entry.first);
    });
}

/// A stamp that is new even when two are made within one tick of the clock.
WallTime MembershipMachine::stamp_of(const RendezvousState& state, const NodeId& node) const {
    const WallTime time = liveness_.group_time(now_);
    const auto last = state.last_heartbeats.find(node);
    return last != state.last_heartbeats.end() && last->second >= time ? last->second + std::chrono::microseconds(1)
                                                                       : time;
}

void MembershipMachine::schedule() {
    if (charges_.empty() && !close_wanted_) return;
    std::optional<milliseconds> next;
    const auto consider = [&](milliseconds at) { next = next ? std::min(*next, at) : at; };
    if (!busy_ && (write_waits_ || stale_)) consider(retry_at_);
    for (const auto& [node, charge] : charges_) {
        if (!busy_ && view_ && listed(*view_, node)) consider(charge.heartbeat_written + beat_every());
        if (charge.phase == Phase::joining) consider(charge.join_deadline);
        if (charge.phase == Phase::joining && !charge.members && now_.steady < hold_until_) consider(hold_until_);
        const bool in_round = charge.phase == Phase::running || charge.phase == Phase::told;
        if (in_round && !charge.fenced && settings_.limits.max_nodes > 1)
            consider(charge.heartbeat_written + settings_.fence_after);
        if (charge.phase != Phase::running) continue;
        for (const auto& [member, since] : charge.missing_since) consider(since + settings_.lost_grace);
        if (view_ && !view_->wait_list.empty() && now_.steady < hold_until_) consider(hold_until_);
    }
    if (!busy_ && view_ && view_->deadline && !view_->complete && speaks_for_participant(*view_))
        consider(last_call_ends_);
    if (!busy_) {
        if (const auto death = liveness_.next_death()) consider(*death);
    }
    if (!next) return;
    const milliseconds at = std::max(*next, now_.steady + milliseconds(1));
    if (wake_ == at) return;
    wake_ = at;
    out_.emplace_back(WakeAt{at});
}

std::optional<milliseconds> MembershipMachine::last_heartbeat(const NodeId& node) const {
    const auto charge = charges_.find(node);
    return charge == charges_.end() ? std::nullopt : std::optional(charge->second.heartbeat_written);
}

JoinProgress MembershipMachine::progress(const NodeId& node, Moment now) const {
    JoinProgress progress;
    const auto charge = charges_.find(node);
    if (charge != charges_.end() && charge->second.phase == Phase::joining)
        progress.gives_up_in = std::max(milliseconds{0}, charge->second.join_deadline - now.steady);
    if (!view_) return progress;
    progress.spare = view_->redundancy_list.contains(node);
    progress.waiting = view_->wait_list.contains(node);
    progress.here = participant_count(*view_);
    for (const auto& [member, rank] : view_->participants)
        if (progress.nodes.size() < names_shown) progress.nodes.push_back(member.addr);
    if (view_->deadline && !view_->complete)
        progress.last_call = std::max(milliseconds{0}, last_call_ends_ - now.steady);
    return progress;
}

}  // namespace cpprun
