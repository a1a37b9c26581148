// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/guard_containment.hpp"

#include "runtime/process/ancestry.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/prctl.h>

namespace cpprun {
namespace {

class GuardedWorker final : public ContainedWorker {
  public:
    GuardedWorker(std::shared_ptr<WorkerGuard> guard, const GuardContainment& containment)
        : guard_(std::move(guard)), containment_(containment) {}

    Result<void> await_start() override { return guard_->await_start(); }

    pid_t pid() const override { return guard_->worker(); }

    Result<UniqueFd> watch() override {
        UniqueFd fd(::fcntl(guard_->channel(), F_DUPFD_CLOEXEC, 0));
        if (!fd) return failure(error_text(errno));
        return fd;
    }

    std::optional<ExitStatus> ended() override { return guard_->ended(); }

    // The trees of workers whose guards were killed have fallen to us, and cannot be told apart any more.
    std::vector<pid_t> tree() const override {
        if (guard_->dead()) return containment_.adopted().living(containment_.own());
        std::vector<pid_t> pids = descendants_of(guard_->pid());
        // Where the guard has not reaped a child yet, what that has left may have fallen to it only after we had
        // looked.
        for (const pid_t child : children_of(guard_->pid()))
            if (std::find(pids.begin(), pids.end(), child) == pids.end()) pids.push_back(child);
        pids.erase(std::remove(pids.begin(), pids.end(), pid()), pids.end());
        return pids;
    }

    void kill() override {
        guard_->kill();
        if (guard_->dead()) containment_.adopted().kill(containment_.own());
    }

    void release() override {
        if (guard_->worker() < 0) return;
        // A worker that cannot be killed stays below its guard, which is not waited for.
        if (guard_->ended()) guard_->let_go();
    }

  private:
    std::shared_ptr<WorkerGuard> guard_;
    const GuardContainment& containment_;
};

}  // namespace

Result<std::unique_ptr<Containment>> GuardContainment::open() {
    if (!children_are_told()) return failure("/proc does not tell which children a process has");
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return failure("this process cannot become a subreaper: " + error_text(errno));
    return std::unique_ptr<Containment>(new GuardContainment());
}

GuardContainment::~GuardContainment() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

std::string GuardContainment::description() const {
    return "a guard process for each worker";
}

Result<std::unique_ptr<ContainedWorker>> GuardContainment::start(const SpawnSpec& spec) {
    BOOST_OUTCOME_TRY(auto started, WorkerGuard::start(spec));
    const std::shared_ptr<WorkerGuard> guard(std::move(started));
    if (lease_) guard->lease_until(*lease_);
    guards_.push_back(guard);
    return std::make_unique<GuardedWorker>(guard, *this);
}

void GuardContainment::lease_until(std::chrono::steady_clock::time_point time) {
    lease_ = time;
    for (const auto& known : guards_)
        if (const auto guard = known.lock()) guard->lease_until(time);
}

std::vector<pid_t> GuardContainment::own() const {
    std::vector<pid_t> pids;
    for (const auto& known : guards_) {
        const auto guard = known.lock();
        if (!guard) continue;
        pids.push_back(guard->pid());
        if (guard->worker() > 0) pids.push_back(guard->worker());
    }
    return pids;
}

void GuardContainment::tend(const std::vector<pid_t>& /*workers*/) {
    guards_.erase(std::remove_if(guards_.begin(), guards_.end(), [](const auto& guard) { return guard.expired(); }),
                  guards_.end());
    adopted_.reap(own());
}

}  // namespace cpprun
