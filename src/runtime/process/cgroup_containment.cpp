// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/cgroup_containment.hpp"

#include "runtime/process/direct_worker.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace cpprun {
namespace {

class CgroupWorker final : public DirectWorker {
  public:
    CgroupWorker(pid_t pid, Cgroup cgroup, const Cgroup& home)
        : DirectWorker(pid), cgroup_(std::move(cgroup)), home_(home) {}

    std::vector<pid_t> tree() const override {
        std::vector<pid_t> pids = cgroup_.processes();
        pids.erase(std::remove(pids.begin(), pids.end(), pid()), pids.end());
        return pids;
    }
    void kill() override { cgroup_.kill(); }
    void release() override {
        DirectWorker::release();
        if (cgroup_.remove()) return;
        cgroup_.move_processes_to(home_);
        cgroup_.remove();
    }

  private:
    Cgroup cgroup_;
    const Cgroup& home_;
};

}  // namespace

Result<std::unique_ptr<Containment>> CgroupContainment::open() {
    BOOST_OUTCOME_TRY(auto tree, CgroupTree::create());
    std::unique_ptr<CgroupContainment> made(new CgroupContainment(std::move(tree)));
    for (auto& guard : made->guards_) {
        BOOST_OUTCOME_TRY(guard, AgentGuard::start(&made->tree_));
    }
    return std::unique_ptr<Containment>(std::move(made));
}

CgroupContainment::~CgroupContainment() {
    if (tree_.root().remove()) return;
    tree_.root().kill();
    tree_.root().remove();
}

std::string CgroupContainment::description() const {
    return "the cgroup " + tree_.root().directory();
}

Result<std::unique_ptr<ContainedWorker>> CgroupContainment::start(const SpawnSpec& spec) {
    BOOST_OUTCOME_TRY(Cgroup cgroup, tree_.add());
    const UniqueFd directory(::open(cgroup.directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return failure("cannot open " + cgroup.directory() + ": " + error_text(errno));
    const Result<pid_t> pid = spawn_in_cgroup(spec, directory.get());
    if (!pid) {
        cgroup.remove();
        return pid.error();
    }
    return std::make_unique<CgroupWorker>(pid.value(), std::move(cgroup), tree_.home());
}

void CgroupContainment::lease_until(std::chrono::steady_clock::time_point time) {
    for (const auto& guard : guards_) guard->lease_until(time);
}

void CgroupContainment::tend(const std::vector<pid_t>& workers) {
    std::vector<pid_t> own = workers;
    for (const auto& guard : guards_) {
        guard->renew_if_dead();
        own.push_back(guard->pid());
    }
    if (::getpid() == 1) adopted_.reap(own);
}

}  // namespace cpprun
