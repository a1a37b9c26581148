// SPDX-License-Identifier: BSD-3-Clause
// How this node's agent meets the others of its job, as the agent's driver sees it. One implementation for each way:
// local_meeting.hpp (one node), rendezvous/static_meeting.hpp, rendezvous/c10d_meeting.hpp.
#pragma once

#include "core/agent/agent_events.hpp"
#include "core/report/peer_records.hpp"
#include "runtime/diagnostics.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <utility>

namespace cpprun {

/// A word of an agent to the other cpprun agents of its job, which changes nothing for the job itself. Bytes of others:
/// to be checked and made safe before they are shown.
struct PeerNote {
    std::string kind;  ///< what it is about
    std::string host;  ///< of the agent that says it
    std::string text;  ///< 4 KiB at most
    bool own = false;  ///< this agent's own, which comes back: its place among the others' is the same for all
};

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

    /// Tells the other agents, where there are any and a way to them; all of them, this one too, hear what is said in
    /// the same order. What cannot be told is lost.
    virtual void tell(PeerNote note) { static_cast<void>(note); }
    /// Where notes go, also between the rounds. Called once, before anything else.
    void hear_notes(std::function<void(const PeerNote&)> hear) { hear_note_ = std::move(hear); }
    /// Whether the others that this agent hears of do not hear each other, and need its word.
    virtual bool speaks_for_others() const { return false; }
    /// The first failures of the nodes in the latest round that had one, in an order that is the same on all nodes.
    virtual std::vector<JobFailure> job_failures() const { return {}; }
    /// Leaves a text where the other agents find it when this node is gone: they get it as a note about "words". Each
    /// replaces the one before.
    virtual void leave_words(std::string text) { static_cast<void>(text); }

    /// The run is over for this node: tells the others what they should know, within a bound, then calls `done`. No
    /// events are posted any more.
    virtual void end(const RunResult& result, std::function<void()> done) = 0;

  protected:
    void post(AgentEvent event) const {
        end_waiting();
        if (post_) post_(std::move(event));
    }
    void pass_on(const PeerNote& note) const {
        if (hear_note_) hear_note_(note);
    }
    void extend_lease(std::chrono::steady_clock::time_point until) const {
        if (lease_) lease_(until);
    }
    void fall_silent() { post_ = nullptr; }

  private:
    Post post_;
    std::function<void(const PeerNote&)> hear_note_;
    std::function<void(std::chrono::steady_clock::time_point)> lease_;
};

}  // namespace cpprun
