// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/group_containment.hpp"

#include "runtime/process/ancestry.hpp"
#include "runtime/process/direct_worker.hpp"

#include <csignal>
#include <unistd.h>

namespace cpprun {
namespace {

class GroupWorker final : public DirectWorker {
  public:
    using DirectWorker::DirectWorker;

    std::vector<pid_t> tree() const override { return members_of_session(pid()); }
    void kill() override {
        ::kill(-pid(), SIGKILL);
        for (const pid_t member : tree()) ::kill(member, SIGKILL);
    }
};

}  // namespace

Result<std::unique_ptr<Containment>> GroupContainment::open() {
    BOOST_OUTCOME_TRY(auto guard, AgentGuard::start());
    return std::unique_ptr<Containment>(new GroupContainment(std::move(guard)));
}

std::string GroupContainment::description() const {
    return "sessions and process groups";
}

Result<std::unique_ptr<ContainedWorker>> GroupContainment::start(const SpawnSpec& spec) {
    SpawnSpec announced = spec;
    announced.announce_fd = guard_->announce_fd();
    BOOST_OUTCOME_TRY(const pid_t pid, spawn(announced));
    guard_->watch(pid);
    return std::make_unique<GroupWorker>(pid);
}

void GroupContainment::tend(const std::vector<pid_t>& workers) {
    guard_->renew_if_dead();
    std::vector<pid_t> own = workers;
    own.push_back(guard_->pid());
    if (::getpid() == 1) adopted_.reap(own);
}

}  // namespace cpprun
