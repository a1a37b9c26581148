// SPDX-License-Identifier: BSD-3-Clause
#include "simulation/rendezvous_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cpprun::simulation {
namespace {

constexpr milliseconds request_timeout{3'000};
constexpr milliseconds agreement_poll{10};
constexpr milliseconds guard_bound{12'000};
constexpr milliseconds fence_after{10'000};
// As HostDesk and C10dMeeting have them.
constexpr milliseconds sign_of_life_every{3'000};
constexpr milliseconds led_lease{6'000};
constexpr milliseconds led_lease_looked_at_every{500};
constexpr milliseconds led_guard_bound{9'000};
constexpr milliseconds silent_after{10'000};
constexpr milliseconds silence_looked_for_every{1'000};
constexpr milliseconds closed_grace{1'000};
const WallTime true_start{std::chrono::seconds(1'764'550'000)};

}  // namespace

struct World::Agent {
    Agent(MembershipSettings settings, NodeId id) : machine(settings), node(std::move(id)) {}

    MembershipMachine machine;
    NodeId node;
    std::optional<std::int64_t> node_rank;
    milliseconds skew{0};
    std::uint64_t token = 0;  // version of the store's value that the machine saw last
    std::uint64_t wake_serial = 0;
    milliseconds frozen_until{0};
    milliseconds cut_until{0};
    milliseconds late_until{0};
    milliseconds late_by{0};
    // Led: what the host knows, when the agent last had its answer, and when its latest mail and wish arrive.
    bool known = false;
    milliseconds heard{0};
    milliseconds confirmed{0};
    milliseconds sign_sent{0};
    int mails = 0;
    bool fenced = false;
    milliseconds mail_at{0};
    milliseconds wish_at{0};
    bool stopping = false;
    std::uint64_t stop_serial = 0;
    bool joined = false;
};

World::World(WorldOptions options) : options_(options), random_(options.seed) {}
World::~World() = default;

void World::at(milliseconds when, std::function<void()> act) {
    queue_.push({when, serial_++, std::move(act)});
}

double World::chance() {
    return std::uniform_real_distribution<double>()(random_);
}

milliseconds World::delay() {
    return milliseconds(std::uniform_int_distribution<milliseconds::rep>(0, options_.delay_max.count())(random_));
}

void World::tell(const std::string& line) {
    story_.push_back(fmt::format("{:>8} {}", now_.count(), line));
}

int World::add_agent(milliseconds after, std::string host, std::optional<std::int64_t> node_rank) {
    const int index = static_cast<int>(agents_.size());
    MembershipSettings settings;
    settings.limits = {options_.min_nodes, options_.max_nodes, options_.last_call};
    settings.seed = random_();
    const NodeId node{std::move(host), 1000 + index, 0};
    agents_.push_back(std::make_unique<Agent>(settings, node));
    views_.push_back({node});
    Agent& agent = *agents_.back();
    agent.node_rank = node_rank;
    const auto skew = options_.skew_max.count();
    agent.skew = milliseconds(std::uniform_int_distribution<milliseconds::rep>(-skew, skew)(random_));
    at(now_ + after, [this, index] {
        agents_[static_cast<std::size_t>(index)]->joined = true;
        tell(fmt::format("{} joins", agents_[static_cast<std::size_t>(index)]->node.addr));
        if (led(index)) {
            agents_[static_cast<std::size_t>(index)]->confirmed = now_;
            show_life(index);
        }
        if (options_.led && index == 0) look_for_silent();
        wish(index, JoinWish{agents_[static_cast<std::size_t>(index)]->node,
                             agents_[static_cast<std::size_t>(index)]->node_rank});
    });
    return index;
}

void World::crash(int index, milliseconds after) {
    at(now_ + after, [this, index] {
        AgentView& view = views_[static_cast<std::size_t>(index)];
        tell(fmt::format("{} crashes", view.node.addr));
        view.alive = false;
        view.running = false;
        if (led(index))  // the kernel says that the connection is closed
            at(now_ + closed_grace, [this, index] { taken_for_dead(index); });
    });
}

void World::freeze(int index, milliseconds after, milliseconds duration) {
    at(now_ + after, [this, index, duration] {
        Agent& agent = *agents_[static_cast<std::size_t>(index)];
        tell(fmt::format("{} freezes for {} ms", agent.node.addr, duration.count()));
        agent.frozen_until = now_ + duration;
        // The guard, which does not freeze with its agent, was told of every heartbeat that got through.
        const auto lease = led(index) ? agent.confirmed : agent.machine.last_heartbeat(agent.node);
        if (!lease) return;
        const milliseconds bound = led(index) ? led_guard_bound : guard_bound;
        at(std::max(now_, *lease + bound), [this, index] {
            const Agent& frozen = *agents_[static_cast<std::size_t>(index)];
            AgentView& view = views_[static_cast<std::size_t>(index)];
            if (frozen.frozen_until <= now_ || !view.running || options_.max_nodes == 1) return;
            tell(fmt::format("the guard of {} stops the workers", view.node.addr));
            view.running = false;
            at(frozen.frozen_until, [this, index] { stop_workers(index, milliseconds(0), true); });
        });
    });
}

void World::cut_off(int index, milliseconds after, milliseconds duration) {
    at(now_ + after, [this, index, duration] {
        Agent& agent = *agents_[static_cast<std::size_t>(index)];
        tell(fmt::format("{} is cut off for {} ms", agent.node.addr, duration.count()));
        agent.cut_until = now_ + duration;
    });
}

void World::leave(int index, milliseconds after) {
    at(now_ + after, [this, index] {
        AgentView& view = views_[static_cast<std::size_t>(index)];
        const bool joined = agents_[static_cast<std::size_t>(index)]->joined;
        if (!view.alive || view.ended || !joined) return;
        tell(fmt::format("{} leaves", view.node.addr));
        view.running = false;
        view.ended = true;
        wish(index, LeaveWish{view.node});
    });
}

void World::fail_worker(int index, milliseconds after) {
    at(now_ + after, [this, index] {
        if (!views_[static_cast<std::size_t>(index)].running) return;
        tell(fmt::format("a worker of {} fails", views_[static_cast<std::size_t>(index)].node.addr));
        stop_workers(index, options_.stop_time_max, true);
    });
}

void World::close_run(int index, milliseconds after) {
    at(now_ + after, [this, index] {
        tell(fmt::format("{} closes the run", views_[static_cast<std::size_t>(index)].node.addr));
        views_[static_cast<std::size_t>(index)].running = false;
        views_[static_cast<std::size_t>(index)].ended = true;
        wish(index, CloseWish{});
        wish(index, LeaveWish{views_[static_cast<std::size_t>(index)].node});
    });
}

void World::answer_late(int index, milliseconds after, milliseconds duration, milliseconds by) {
    at(now_ + after, [this, index, duration, by] {
        Agent& agent = *agents_[static_cast<std::size_t>(index)];
        tell(fmt::format("{} hears late by {} ms for {} ms", agent.node.addr, by.count(), duration.count()));
        agent.late_until = now_ + duration;
        agent.late_by = by;
    });
}

// --- led agents ---

/// Whom a command of this agent's machine is for.
int World::addressee(int index, const NodeId& node) const {
    if (!options_.led) return index;
    const auto found = std::find_if(views_.begin(), views_.end(), [&](const AgentView& v) { return v.node == node; });
    return static_cast<int>(found - views_.begin());
}

/// What an agent wants: a matter for its own machine, or for the host's. TCP keeps what a cut link holds up.
void World::wish(int index, MembershipEvent event) {
    if (!led(index)) {
        deliver(index, std::move(event));
        return;
    }
    Agent& agent = *agents_[static_cast<std::size_t>(index)];
    agent.wish_at = std::max(agent.wish_at, std::max(now_, agent.cut_until) + delay());
    at(agent.wish_at, [this, index, event = std::move(event)] {
        Agent& from = *agents_[static_cast<std::size_t>(index)];
        from.heard = now_;
        if (std::holds_alternative<JoinWish>(event)) from.known = true;
        if (std::holds_alternative<LeaveWish>(event)) from.known = false;
        deliver(0, event);
    });
}

/// What the host tells an agent, in order.
void World::hear(int index, std::function<void()> act) {
    if (!led(index)) {
        act();
        return;
    }
    Agent& agent = *agents_[static_cast<std::size_t>(index)];
    ++agent.mails;
    agent.mail_at = std::max({agent.mail_at, now_ + delay(), agent.cut_until, agent.frozen_until});
    at(agent.mail_at, [this, index, act = std::move(act)]() mutable {
        Agent& to = *agents_[static_cast<std::size_t>(index)];
        if (!views_[static_cast<std::size_t>(index)].alive) return;
        if (to.cut_until > now_ || to.frozen_until > now_) {
            hear(index, std::move(act));
        } else {
            act();
        }
    });
}

void World::show_life(int index) {
    Agent& agent = *agents_[static_cast<std::size_t>(index)];
    const AgentView& view = views_[static_cast<std::size_t>(index)];
    if (!view.alive || view.ended) return;
    at(now_ + led_lease_looked_at_every, [this, index] { show_life(index); });
    if (agent.frozen_until > now_) return;
    if (agent.cut_until <= now_ && now_ - agent.sign_sent >= sign_of_life_every) {
        const milliseconds sent = agent.sign_sent = now_;
        at(now_ + delay(), [this, index, sent] {
            Agent& from = *agents_[static_cast<std::size_t>(index)];
            if (unreachable(from)) return;
            from.heard = now_;
            const bool stranger = !from.known && from.mails > 0;
            hear(index, [this, index, sent, stranger] {
                Agent& living = *agents_[static_cast<std::size_t>(index)];
                living.confirmed = std::max(living.confirmed, sent);
                living.fenced = false;
                if (stranger) begin_anew(index);
            });
        });
    }
    if (!view.running || agent.fenced || now_ - agent.confirmed < led_lease) return;
    agent.fenced = true;
    on(index, FenceDue{view.node});
}

/// One that stops its workers already will join, and one that has none wishes at once.
void World::begin_anew(int index) {
    AgentView& view = views_[static_cast<std::size_t>(index)];
    const Agent& agent = *agents_[static_cast<std::size_t>(index)];
    if (agent.stopping || view.ended) return;
    if (view.running) {
        stop_workers(index, options_.stop_time_max, true);
        return;
    }
    view.members = nullptr;
    wish(index, JoinWish{view.node, agent.node_rank, view.last_round});
}

void World::look_for_silent() {
    at(now_ + silence_looked_for_every, [this] {
        for (int index = 1; index < static_cast<int>(agents_.size()); ++index)
            if (now_ - agents_[static_cast<std::size_t>(index)]->heard >= silent_after) taken_for_dead(index);
        look_for_silent();
    });
}

void World::taken_for_dead(int index) {
    Agent& agent = *agents_[static_cast<std::size_t>(index)];
    if (!std::exchange(agent.known, false)) return;
    tell(fmt::format("{} is taken for dead", agent.node.addr));
    deliver(0, NodeGone{agent.node});
}

void World::deliver(int index, MembershipEvent event) {
    Agent& agent = *agents_[static_cast<std::size_t>(index)];
    if (!views_[static_cast<std::size_t>(index)].alive) return;
    if (agent.frozen_until > now_) {
        at(agent.frozen_until, [this, index, event = std::move(event)] { deliver(index, event); });
        return;
    }
    const Moment moment{now_, true_start + now_ + agent.skew};
    obey(index, agent.machine.handle(event, moment));
}

void World::obey(int index, std::vector<MembershipCommand> commands) {
    for (const MembershipCommand& command : commands) std::visit([&](const auto& c) { on(index, c); }, command);
}

bool World::unreachable(const Agent& agent) const {
    return agent.cut_until > now_;
}

/// One request and its answer. Either may be lost; then the agent hears nothing until its time-out.
void World::ask_store(int index, std::function<MembershipEvent()> serve) {
    const auto answered = std::make_shared<bool>(false);
    // A host has its store at hand.
    const auto lost = [this] { return !options_.led && faults_ && chance() < options_.loss; };
    at(now_ + request_timeout, [this, index, answered] {
        if (*answered) return;
        *answered = true;
        deliver(index, StoreSilent{});
    });
    if (lost()) return;
    at(now_ + delay(), [this, index, answered, serve = std::move(serve), lost] {
        if (unreachable(*agents_[static_cast<std::size_t>(index)]) || *answered) return;
        const auto answer = std::make_shared<MembershipEvent>(serve());
        if (lost()) return;
        const Agent& agent = *agents_[static_cast<std::size_t>(index)];
        const milliseconds late = agent.late_until > now_ ? agent.late_by : milliseconds(0);
        at(now_ + late + delay(), [this, index, answered, answer] {
            if (unreachable(*agents_[static_cast<std::size_t>(index)]) || *answered) return;
            *answered = true;
            deliver(index, *answer);
        });
    });
}

void World::on(int index, const ReadState& /*command*/) {
    ask_store(index, [this, index] {
        agents_[static_cast<std::size_t>(index)]->token = version_;
        return MembershipEvent(StateSeen{store_});
    });
}

void World::on(int index, const SwapState& command) {
    ask_store(index, [this, index, desired = command.desired] {
        Agent& agent = *agents_[static_cast<std::size_t>(index)];
        const bool taken = agent.token == version_;
        if (taken) {
            store_ = desired;
            ++version_;
            store_changed();
        }
        agent.token = version_;
        return MembershipEvent(SwapAnswered{taken, store_});
    });
}

void World::store_changed() {
    if (was_closed_ && !store_->closed && violation_.empty()) violation_ = "a closed run was opened again";
    was_closed_ = store_->closed;
    if (store_->complete && store_->round != last_complete_round_) {
        last_complete_round_ = store_->round;
        ++rounds_completed_;
        std::string names;
        for (const auto& [node, rank] : store_->participants) names += fmt::format(" {}:{}", node.addr, rank);
        tell(fmt::format("round {} complete:{}", store_->round, names));
        std::set<std::int64_t> ranks;
        for (const auto& [node, rank] : store_->participants) ranks.insert(rank);
        const auto count = static_cast<int>(store_->participants.size());
        if (static_cast<int>(ranks.size()) != count || *ranks.begin() != 0 || *ranks.rbegin() != count - 1)
            violation_ = "ranks are not 0 to n-1";
        if (count < options_.min_nodes || count > options_.max_nodes) violation_ = "a round has a wrong size";
    }
    for (int index = 0; index < static_cast<int>(agents_.size()); ++index) {
        if (!agents_[static_cast<std::size_t>(index)]->joined || led(index)) continue;
        at(now_ + delay(), [this, index] {
            if (!unreachable(*agents_[static_cast<std::size_t>(index)])) deliver(index, StateChanged{});
        });
    }
}

void World::on(int index, const WakeAt& command) {
    Agent& agent = *agents_[static_cast<std::size_t>(index)];
    const std::uint64_t serial = ++agent.wake_serial;
    at(std::max(now_, command.steady), [this, index, serial] {
        if (agents_[static_cast<std::size_t>(index)]->wake_serial == serial) deliver(index, TimeCame{});
    });
}

void World::on(int speaker, const RoundFormed& command) {
    const int index = addressee(speaker, command.node);
    hear(index, [this, index, command] {
        AgentView& view = views_[static_cast<std::size_t>(index)];
        if (led(index) && (view.running || view.ended)) return;
        view.members = command.members;
        view.last_round = command.members->round;
        ++view.rounds;
        tell(fmt::format("{} is rank {} of {} in round {}", view.node.addr, command.rank,
                         command.members->by_rank.size(), command.members->round));
        start_workers_when_agreed(index, command.members->round);
    });
}

/// The exchange of ranks: nobody starts before the round's first node has seen the same members, nor without having
/// been heard of lately.
void World::start_workers_when_agreed(int index, std::int64_t round) {
    AgentView& view = views_[static_cast<std::size_t>(index)];
    const Agent& agent = *agents_[static_cast<std::size_t>(index)];
    if (!view.alive || view.ended || agent.stopping || !view.members || view.members->round != round) return;
    const NodeId& first = view.members->by_rank.front();
    const auto leader = std::find_if(views_.begin(), views_.end(), [&](const AgentView& v) { return v.node == first; });
    const milliseconds last = led(index) ? agent.confirmed : agent.machine.last_heartbeat(agent.node).value_or(now_);
    if (now_ - last >= (led(index) ? led_lease : fence_after)) {
        if (options_.max_nodes > 1 && agent.frozen_until <= now_) {
            begin_anew(index);
            return;
        }
    } else if (agent.frozen_until <= now_ && leader != views_.end() && leader->members &&
               leader->members->round == round && leader->members->by_rank == view.members->by_rank) {
        view.running = true;
        return;
    }
    at(now_ + agreement_poll, [this, index, round] { start_workers_when_agreed(index, round); });
}

void World::on(int speaker, const JoinEnded& command) {
    const int index = addressee(speaker, command.node);
    hear(index, [this, index, why = command.why] {
        AgentView& view = views_[static_cast<std::size_t>(index)];
        if (led(index) && view.ended) return;
        view.ended = true;
        view.end = why;
        tell(fmt::format("{} is out: {}", view.node.addr, static_cast<int>(why)));
    });
}

void World::on(int speaker, const RestartNeeded& command) {
    const int index = addressee(speaker, command.node);
    hear(index, [this, index, command] {
        std::string names;
        for (const NodeId& node : command.nodes) names += " " + node.addr;
        static const char* const whys[] = {"newcomers", "lost", "left out"};
        tell(fmt::format("{} must restart: {}{}", command.node.addr, whys[static_cast<int>(command.why)], names));
        if (options_.led) {
            begin_anew(index);
        } else {
            stop_workers(index, options_.stop_time_max, true);
        }
    });
}

void World::on(int speaker, const RunClosed& command) {
    const int index = addressee(speaker, command.node);
    hear(index, [this, index] {
        tell(fmt::format("{} hears of the end", views_[static_cast<std::size_t>(index)].node.addr));
        views_[static_cast<std::size_t>(index)].ended = true;
        stop_workers(index, options_.stop_time_max, false);
    });
}

void World::on(int index, const Reinstated& command) {
    if (addressee(index, command.node) != index) return;
    tell(fmt::format("{} puts itself back", views_[static_cast<std::size_t>(index)].node.addr));
}

void World::on(int index, const FenceDue& command) {
    if (addressee(index, command.node) != index) return;
    tell(fmt::format("{} fences itself", views_[static_cast<std::size_t>(index)].node.addr));
    stop_workers(index, milliseconds(1'000), true);
}

void World::stop_workers(int index, milliseconds within, bool then_join) {
    Agent& agent = *agents_[static_cast<std::size_t>(index)];
    agent.stopping = true;
    const std::uint64_t serial = ++agent.stop_serial;
    const auto takes = std::uniform_int_distribution<milliseconds::rep>(0, within.count())(random_);
    at(now_ + milliseconds(takes), [this, index, then_join, serial] {
        AgentView& view = views_[static_cast<std::size_t>(index)];
        Agent& stopped = *agents_[static_cast<std::size_t>(index)];
        if (stopped.stop_serial != serial) return;
        stopped.stopping = false;
        view.running = false;
        view.members = nullptr;
        if (then_join && view.alive && !view.ended)
            wish(index, JoinWish{view.node, stopped.node_rank, view.last_round});
    });
}

std::string World::check() const {
    const AgentView* other = nullptr;
    for (const AgentView& view : views_) {
        if (!view.running) continue;
        if (other == nullptr) {
            other = &view;
            continue;
        }
        if (view.members->round != other->members->round)
            return fmt::format("{} runs round {} while {} runs round {}", view.node.addr, view.members->round,
                               other->node.addr, other->members->round);
        if (view.members->by_rank != other->members->by_rank)
            return fmt::format("{} and {} hold different worlds of round {}", view.node.addr, other->node.addr,
                               view.members->round);
    }
    return violation_;
}

std::string World::run_for(milliseconds duration) {
    const milliseconds end = now_ + duration;
    while (!queue_.empty() && queue_.top().at <= end) {
        const Event event = queue_.top();
        queue_.pop();
        now_ = event.at;
        event.act();
        std::string wrong = check();
        if (!wrong.empty()) return wrong;
    }
    now_ = end;
    return {};
}

void World::end_faults() {
    faults_ = false;
}

}  // namespace cpprun::simulation
