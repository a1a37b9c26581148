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

    std::vector<pid_t> tree() const override { return members_of_sessions({pid()}).front(); }
    void kill() override { kill_group_and(tree()); }
    void kill_group_and(const std::vector<pid_t>& members) const {
        ::kill(-pid(), SIGKILL);
        for (const pid_t member : members) ::kill(member, SIGKILL);
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

// All of /proc is read for one session as for many: once is enough.
std::vector<std::vector<pid_t>> GroupContainment::trees(const std::vector<const ContainedWorker*>& workers) const {
    std::vector<pid_t> sessions;
    sessions.reserve(workers.size());
    for (const ContainedWorker* worker : workers) sessions.push_back(worker->pid());
    return members_of_sessions(sessions);
}

void GroupContainment::kill(const std::vector<ContainedWorker*>& workers) {
    const std::vector<std::vector<pid_t>> members = trees({workers.begin(), workers.end()});
    for (std::size_t i = 0; i < workers.size(); ++i) static_cast<GroupWorker*>(workers[i])->kill_group_and(members[i]);
}

void GroupContainment::tend(const std::vector<pid_t>& workers) {
    guard_->renew_if_dead();
    std::vector<pid_t> own = workers;
    own.push_back(guard_->pid());
    if (::getpid() == 1) adopted_.reap(own);
}

}  // namespace cpprun
