// SPDX-License-Identifier: BSD-3-Clause
// Many agents and one store in virtual time: messages are late or lost, agents crash, freeze, leave and come, clocks
// differ. Everything follows from a seed.
#pragma once

#include "core/rendezvous/membership_machine.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace cpprun::simulation {

using std::chrono::milliseconds;

struct WorldOptions {
    std::uint64_t seed = 1;
    int min_nodes = 2;
    int max_nodes = 2;
    milliseconds last_call{3'000};
    milliseconds delay_max{20};       ///< of a message, one way
    double loss = 0;                  ///< chance that a request or its answer is lost, while faults last
    milliseconds skew_max{0};         ///< clocks differ from the true time by up to this much
    milliseconds stop_time_max{500};  ///< how long workers take to stop
    /// The first agent hosts the store, and its machine speaks for all. It must not fail: the job ends with it.
    bool led = false;
};

/// What an agent is doing, as far as its workers are concerned.
struct AgentView {
    NodeId node;
    bool alive = true;
    bool running = false;  ///< its workers run
    bool ended = false;    ///< it will join no more
    std::optional<JoinEnded::Why> end = {};
    std::shared_ptr<const RoundMembers> members = {};
    std::optional<std::int64_t> last_round = {};
    int rounds = 0;
};

class World {
  public:
    explicit World(WorldOptions options);
    ~World();

    // Faults and wishes, at a time from now.
    int add_agent(milliseconds after, std::string host, std::optional<std::int64_t> node_rank = {});
    void crash(int agent, milliseconds after);
    void freeze(int agent, milliseconds after, milliseconds duration);
    void cut_off(int agent, milliseconds after, milliseconds duration);
    void leave(int agent, milliseconds after);
    void fail_worker(int agent, milliseconds after);
    void close_run(int agent, milliseconds after);
    /// For a while the store's answers to this agent come later by so much.
    void answer_late(int agent, milliseconds after, milliseconds duration, milliseconds by);

    /// Runs for this long, checking every invariant after every step. Returns the first violation, or an empty text.
    std::string run_for(milliseconds duration);
    /// From here on no message is lost.
    void end_faults();

    const std::vector<AgentView>& agents() const { return views_; }
    const std::optional<RendezvousState>& store() const { return store_; }
    milliseconds now() const { return now_; }
    int rounds_completed() const { return rounds_completed_; }
    int holds_told() const { return holds_told_; }  ///< how often newcomers were said to be held back
    const std::vector<std::string>& story() const { return story_; }

  private:
    struct Agent;
    struct Event {
        milliseconds at;
        std::uint64_t serial;
        std::function<void()> act;
        bool operator<(const Event& other) const { return std::pair(at, serial) > std::pair(other.at, other.serial); }
    };

    void at(milliseconds when, std::function<void()> act);
    void deliver(int agent, MembershipEvent event);
    void obey(int agent, std::vector<MembershipCommand> commands);
    void on(int agent, const ReadState& command);
    void on(int agent, const SwapState& command);
    void on(int agent, const WakeAt& command);
    void on(int agent, const RoundFormed& command);
    void on(int agent, const JoinEnded& command);
    void on(int agent, const RestartNeeded& command);
    void on(int agent, const RunClosed& command);
    void on(int agent, const Reinstated& command);
    void on(int agent, const FenceDue& command);
    void on(int /*agent*/, const ClockSkewed& /*command*/) {}
    void on(int /*agent*/, const NewcomersHeldBack& /*command*/) { ++holds_told_; }
    void on(int /*agent*/, const RankWishesIgnored& /*command*/) {}
    // Led agents and their host.
    bool led(int agent) const { return options_.led && agent != 0; }
    int addressee(int agent, const NodeId& node) const;
    void wish(int agent, MembershipEvent event);
    void hear(int agent, std::function<void()> act);
    void show_life(int agent);
    void begin_anew(int agent);
    void look_for_silent();
    void taken_for_dead(int agent);
    void ask_store(int agent, std::function<MembershipEvent()> serve);
    void store_changed();
    void stop_workers(int agent, milliseconds within, bool then_join);
    void start_workers_when_agreed(int agent, std::int64_t round);
    bool unreachable(const Agent& agent) const;
    milliseconds delay();
    double chance();
    std::string check() const;
    void tell(const std::string& line);

    WorldOptions options_;
    std::mt19937_64 random_;
    milliseconds now_{0};
    std::uint64_t serial_ = 0;
    std::priority_queue<Event> queue_;
    std::optional<RendezvousState> store_;
    std::uint64_t version_ = 0;
    bool faults_ = true;
    bool was_closed_ = false;
    int rounds_completed_ = 0;
    int holds_told_ = 0;
    std::int64_t last_complete_round_ = -1;
    std::string violation_;
    std::vector<std::unique_ptr<Agent>> agents_;
    std::vector<AgentView> views_;
    std::vector<std::string> story_;
};

}  // namespace cpprun::simulation
