// SPDX-License-Identifier: BSD-3-Clause
#include "simulation/rendezvous_world.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cpprun::simulation {
namespace {

constexpr milliseconds request_timeout{3'000};
constexpr milliseconds agreement_poll{10};
constexpr milliseconds guard_bound{12'000};
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
        deliver(index, JoinWish{agents_[static_cast<std::size_t>(index)]->node,
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
    });
}

void World::freeze(int index, milliseconds after, milliseconds duration) {
    at(now_ + after, [this, index, duration] {
        Agent& agent = *agents_[static_cast<std::size_t>(index)];
        tell(fmt::format("{} freezes for {} ms", agent.node.addr, duration.count()));
        agent.frozen_until = now_ + duration;
        // The guard, which does not freeze with its agent, was told of every heartbeat that got through.
        const auto lease = agent.machine.last_heartbeat(agent.node);
        if (!lease) return;
        at(std::max(now_, *lease + guard_bound), [this, index] {
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
        deliver(index, LeaveWish{view.node});
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
        deliver(index, CloseWish{});
        deliver(index, LeaveWish{views_[static_cast<std::size_t>(index)].node});
    });
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
    const auto lost = [this] { return faults_ && chance() < options_.loss; };
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
        at(now_ + delay(), [this, index, answered, answer] {
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
        if (!agents_[static_cast<std::size_t>(index)]->joined) continue;
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

void World::on(int index, const RoundFormed& command) {
    AgentView& view = views_[static_cast<std::size_t>(index)];
    view.members = command.members;
    ++view.rounds;
    tell(fmt::format("{} is rank {} of {} in round {}", view.node.addr, command.rank, command.members->by_rank.size(),
                     command.members->round));
    start_workers_when_agreed(index, command.members->round);
}

/// The exchange of ranks: nobody starts before the round's first node has seen the same members.
void World::start_workers_when_agreed(int index, std::int64_t round) {
    AgentView& view = views_[static_cast<std::size_t>(index)];
    const Agent& agent = *agents_[static_cast<std::size_t>(index)];
    if (!view.alive || view.ended || agent.stopping || !view.members || view.members->round != round) return;
    const NodeId& first = view.members->by_rank.front();
    const auto leader = std::find_if(views_.begin(), views_.end(), [&](const AgentView& v) { return v.node == first; });
    if (agent.frozen_until <= now_ && leader != views_.end() && leader->members && leader->members->round == round &&
        leader->members->by_rank == view.members->by_rank) {
        view.running = true;
        return;
    }
    at(now_ + agreement_poll, [this, index, round] { start_workers_when_agreed(index, round); });
}

void World::on(int index, const JoinEnded& command) {
    AgentView& view = views_[static_cast<std::size_t>(index)];
    view.ended = true;
    view.end = command.why;
    tell(fmt::format("{} is out: {}", view.node.addr, static_cast<int>(command.why)));
}

void World::on(int index, const RestartNeeded& command) {
    std::string names;
    for (const NodeId& node : command.nodes) names += " " + node.addr;
    static const char* const whys[] = {"newcomers", "lost", "left out"};
    tell(fmt::format("{} must restart: {}{}", command.node.addr, whys[static_cast<int>(command.why)], names));
    stop_workers(index, options_.stop_time_max, true);
}

void World::on(int index, const RunClosed& command) {
    tell(fmt::format("{} hears of the end", command.node.addr));
    views_[static_cast<std::size_t>(index)].ended = true;
    stop_workers(index, options_.stop_time_max, false);
}

void World::on(int index, const Reinstated& /*command*/) {
    tell(fmt::format("{} puts itself back", views_[static_cast<std::size_t>(index)].node.addr));
}

void World::on(int index, const FenceDue& /*command*/) {
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
        if (then_join && view.alive && !view.ended) deliver(index, JoinWish{view.node, stopped.node_rank});
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
