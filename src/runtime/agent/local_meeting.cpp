// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/agent/local_meeting.hpp"

namespace cpprun {

void LocalMeeting::join(const JoinRound& wish) {
    Result<MasterAddress> master = workers_->begin_attempt();
    if (!master) {
        post(JoinFailed{master.error()});
        return;
    }
    RoundPlace place;
    place.round = round_++;
    place.ranks = config_.worker_identical ? assign_identical_ranks(0, 1, config_.nproc_per_node)
                                           : assign_ranks({{config_.role, config_.nproc_per_node}}).front();
    place.master = std::move(master.value());
    place.restart_count = wish.restart_count;
    place.members = {host_name_};
    post(RoundReady{std::move(place)});
}

void LocalMeeting::enter_exit_barrier() {
    post(BarrierPassed{});
}

void LocalMeeting::end(const RunResult& /*result*/, std::function<void()> done) {
    fall_silent();
    done();
}

}  // namespace cpprun
