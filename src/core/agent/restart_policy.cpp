// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/restart_policy.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cpprun {
namespace {

using std::chrono::milliseconds;

double seconds(milliseconds time) {
    return std::chrono::duration<double>(time).count();
}

bool contains(const std::vector<ExitStatus>& list, ExitStatus status) {
    return std::find(list.begin(), list.end(), status) != list.end();
}

}  // namespace

std::string job_limit_reached(int restarts) {
    return fmt::format("the job has had its {} restarts of --max-job-restarts", restarts);
}

RestartPolicy::RestartPolicy(RestartConfig rules, int max_restarts)
    : rules_(std::move(rules)), max_restarts_(max_restarts) {}

bool RestartPolicy::has_rules() const {
    return !rules_.never_on.empty() || !rules_.free_on.empty() || rules_.min_uptime.count() > 0 ||
           rules_.backoff_first.count() > 0 || rules_.window_restarts > 0 || rules_.renewed_after.count() > 0 ||
           rules_.job_restarts;
}

RestartVerdict RestartPolicy::judge(const std::vector<WorkerFailure>& failures, milliseconds now) {
    RestartVerdict verdict;
    const WorkerFailure* root = failures.empty() ? nullptr : &failures[root_cause(failures)];
    if (root != nullptr && rules_.renewed_after.count() > 0 &&
        root->age.value_or(milliseconds(0)) >= rules_.renewed_after) {
        spent_ = 0;
        in_a_row_ = 0;
    }
    verdict.left = max_restarts_ - spent_;
    if (root != nullptr) verdict.reason = forbidden(failures, *root, now);
    if (!verdict.reason.empty()) return verdict;
    verdict.free = root != nullptr && contains(rules_.free_on, root->status);
    if (verdict.free) {
        verdict.reason = fmt::format("{} is in --free-restart-on", exit_status_text(root->status));
    } else if (verdict.left <= 0) {
        verdict.reason = max_restarts_ == 0 ? "--max-restarts is 0" : "no restarts are left";
        return verdict;
    } else if (rules_.job_restarts && spent_ >= *rules_.job_restarts) {
        verdict.reason = job_limit_reached(*rules_.job_restarts);
        return verdict;
    } else {
        ++spent_;
    }
    verdict.restart = true;
    verdict.wait = next_wait();
    if (rules_.window_restarts > 0) made_.push_back(now);
    return verdict;
}

/// Why there may be no restart whatever is left; empty: there may be one.
std::string RestartPolicy::forbidden(const std::vector<WorkerFailure>& failures, const WorkerFailure& root,
                                     milliseconds now) const {
    for (const WorkerFailure& failure : failures)
        if (!failure.after_stop_signal && contains(rules_.never_on, failure.status))
            return fmt::format("{} of local rank {} is in --no-restart-on", exit_status_text(failure.status),
                               failure.local_rank);
    if (rules_.min_uptime.count() > 0 && root.age && *root.age < rules_.min_uptime)
        return fmt::format("local rank {} lived {:.1f} s, less than --min-uptime={:g}", root.local_rank,
                           seconds(*root.age), seconds(rules_.min_uptime));
    if (rules_.window_restarts > 0) {
        const auto recent =
            std::count_if(made_.begin(), made_.end(), [&](milliseconds time) { return now - time < rules_.window; });
        if (recent >= rules_.window_restarts)
            return fmt::format("there were {} restarts within --restart-window={}/{:g}", recent, rules_.window_restarts,
                               seconds(rules_.window));
    }
    return {};
}

/// The back-off doubles with each restart in a row.
milliseconds RestartPolicy::next_wait() {
    milliseconds wait = rules_.backoff_first;
    for (int i = 0; i < in_a_row_ && wait < rules_.backoff_max; ++i) wait *= 2;
    ++in_a_row_;
    return std::min(wait, std::max(rules_.backoff_first, rules_.backoff_max));
}

}  // namespace cpprun
