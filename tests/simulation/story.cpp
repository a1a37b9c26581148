// SPDX-License-Identifier: BSD-3-Clause
#include "simulation/story.hpp"

#include "simulation/rendezvous_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <stdexcept>

namespace cpprun::simulation {
namespace {

class Teller {
  public:
    Teller(std::uint64_t seed, bool led) {
        options_.seed = seed;
        options_.led = led;
    }

    std::string tell(const std::string& text) {
        std::istringstream lines(text);
        std::string line;
        for (number_ = 1; std::getline(lines, line); ++number_) {
            std::istringstream words(line.substr(0, line.find('#')));
            words_ = &words;
            std::string first;
            if (!(words >> first)) continue;
            if (first == "at") {
                happen();
            } else if (!world_) {
                set(first);
            } else {
                throw std::runtime_error(fmt::format("line {}: '{}' after the first event", number_, first));
            }
            std::string more;
            if (words >> more) throw std::runtime_error(fmt::format("line {}: what is '{}'?", number_, more));
            if (!wrong_.empty()) break;
        }
        if (!world_) throw std::runtime_error("nothing happens");
        if (wrong_.empty()) return {};
        std::string all = wrong_ + "\n";
        for (const std::string& event : world_->story()) all += event + "\n";
        return all;
    }

  private:
    template <class T = std::string>
    T word() {
        T value{};
        if (!(*words_ >> value)) throw std::runtime_error(fmt::format("line {}: a word is missing", number_));
        return value;
    }
    milliseconds time() { return milliseconds(word<std::int64_t>()); }
    bool next_is(const std::string& wanted) {
        const auto before = words_->tellg();
        std::string found;
        if (*words_ >> found && found == wanted) return true;
        words_->clear();
        words_->seekg(before);
        return false;
    }

    void set(const std::string& name) {
        if (name == "nodes") {
            options_.min_nodes = word<int>();
            options_.max_nodes = word<int>();
        } else if (name == "last-call") {
            options_.last_call = time();
        } else if (name == "delay") {
            options_.delay_max = time();
        } else if (name == "loss") {
            options_.loss = word<double>();
        } else if (name == "skew") {
            options_.skew_max = time();
        } else {
            throw std::runtime_error(fmt::format("line {}: what is '{}'?", number_, name));
        }
    }

    /// What the world has for that instant itself comes first.
    void happen() {
        if (!world_) world_ = std::make_unique<World>(options_);
        const milliseconds when = time();
        if (when < world_->now()) throw std::runtime_error(fmt::format("line {}: that is past", number_));
        if (const std::string wrong = world_->run_for(when - world_->now()); !wrong.empty()) {
            wrong_ = wrong;
            return;
        }
        if (next_is("expect")) {
            expect();
        } else {
            act();
        }
    }

    void act() {
        const milliseconds now{0};
        const std::string name = word();
        if (next_is("joins")) {
            std::optional<std::int64_t> rank;
            if (next_is("as")) rank = word<std::int64_t>();
            agents_[name] = world_->add_agent(now, name, rank);
            return;
        }
        const int agent = agent_named(name);
        const std::string what = word();
        if (what == "crashes") {
            world_->crash(agent, now);
        } else if (what == "freezes") {
            world_->freeze(agent, now, time());
        } else if (what == "cut-off") {
            world_->cut_off(agent, now, time());
        } else if (what == "leaves") {
            world_->leave(agent, now);
        } else if (what == "fails") {
            world_->fail_worker(agent, now);
        } else if (what == "closes") {
            world_->close_run(agent, now);
        } else if (what == "hears-late") {
            const milliseconds duration = time();
            world_->answer_late(agent, now, duration, time());
        } else {
            throw std::runtime_error(fmt::format("line {}: what is '{}'?", number_, what));
        }
    }

    void expect() {
        const auto differs = [&](const std::string& what, const auto& is, const auto& should) {
            if (is != should && wrong_.empty())
                wrong_ = fmt::format("line {}: {}: {}, not {}", number_, what, is, should);
        };
        std::string what;
        while (*words_ >> what) {
            if (what == "running") {
                const auto& views = world_->agents();
                differs(what, std::count_if(views.begin(), views.end(), [](const AgentView& v) { return v.running; }),
                        word<std::int64_t>());
            } else if (what == "rounds") {
                differs(what, world_->rounds_completed(), word<int>());
            } else {
                differs(what, state_of(agent_named(what)), word());
            }
        }
        words_->clear();
        words_->seekg(0, std::ios::end);
    }

    /// "rank-0" while its workers run, else what it does or why it ended.
    std::string state_of(int agent) const {
        const AgentView& view = world_->agents()[static_cast<std::size_t>(agent)];
        if (!view.alive) return "dead";
        if (view.ended) {
            static const char* const ends[] = {"closed", "spare-ended", "timed-out"};
            return view.end ? ends[static_cast<int>(*view.end)] : "ended";
        }
        if (view.running) {
            const auto& ranks = view.members->by_rank;
            return fmt::format("rank-{}", std::find(ranks.begin(), ranks.end(), view.node) - ranks.begin());
        }
        const auto& store = world_->store();
        if (!store) return "out";
        if (store->redundancy_list.contains(view.node)) return "spare";
        if (store->wait_list.contains(view.node)) return "waiting";
        return store->participants.contains(view.node) ? "joining" : "out";
    }

    int agent_named(const std::string& name) const {
        const auto found = agents_.find(name);
        if (found == agents_.end()) throw std::runtime_error(fmt::format("line {}: who is '{}'?", number_, name));
        return found->second;
    }

    WorldOptions options_;
    std::unique_ptr<World> world_;
    std::map<std::string, int> agents_;
    std::istringstream* words_ = nullptr;
    int number_ = 0;
    std::string wrong_;
};

}  // namespace

std::string tell_story(const std::string& text, std::uint64_t seed, bool led) {
    return Teller(seed, led).tell(text);
}

}  // namespace cpprun::simulation
