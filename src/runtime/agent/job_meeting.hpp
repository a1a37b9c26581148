// SPDX-License-Identifier: BSD-3-Clause
// How this node's agent meets the others of its job, as the agent's driver sees it. One implementation for each way:
// local_meeting.hpp (one node), rendezvous/static_meeting.hpp, rendezvous/c10d_meeting.hpp.
#pragma once

#include "core/agent/agent_events.hpp"
#include "runtime/diagnostics.hpp"

#include <chrono>
#include <functional>

namespace cpprun {

/// Everything happens on the thread that runs the agent's io_context. Nothing here blocks; answers are events.
class JobMeeting {
  public:
    using Post = std::function<void(AgentEvent)>;

    JobMeeting() = default;
    JobMeeting(const JobMeeting&) = delete;
    JobMeeting& operator=(const JobMeeting&) = delete;
    virtual ~JobMeeting() = default;

    /// Where events go. Called once, before anything else.
    void attach(Post post) { post_ = std::move(post); }

    /// Who stops the workers when this agent cannot: hears until when the other nodes wait for it. Before join().
    void keep_lease(std::function<void(std::chrono::steady_clock::time_point)> keeper) { lease_ = std::move(keeper); }

    /// Brings the node into the next round: answered by RoundReady or JoinFailed. May be called again at any time, and
    /// replaces what went before.
    virtual void join(const JoinRound& wish) = 0;

    /// All workers of this node have ended well. Answered by BarrierPassed, or by what happens instead.
    virtual void enter_exit_barrier() = 0;

    /// The run is over for this node: tells the others what they should know, within a bound, then calls `done`. No
    /// events are posted any more.
    virtual void end(const RunResult& result, std::function<void()> done) = 0;

  protected:
    void post(AgentEvent event) const {
        end_waiting();
        if (post_) post_(std::move(event));
    }
    void extend_lease(std::chrono::steady_clock::time_point until) const {
        if (lease_) lease_(until);
    }
    void fall_silent() { post_ = nullptr; }

  private:
    Post post_;
    std::function<void(std::chrono::steady_clock::time_point)> lease_;
};

}  // namespace cpprun
