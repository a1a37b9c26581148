// SPDX-License-Identifier: BSD-3-Clause
// Whether a failed worker group is started again, when, and why (not). Contract 4.3 by default; the rules beyond it are
// the user's, each by an option of its own. docs/restarts.md has them in words.
#pragma once

#include "core/launch_config.hpp"
#include "core/report/failure_summary.hpp"

#include <chrono>
#include <deque>
#include <string>
#include <vector>

namespace cpprun {

/// What is to be done about a failed attempt.
struct RestartVerdict {
    bool restart = false;
    bool free = false;                  ///< it does not count
    std::chrono::milliseconds wait{0};  ///< before the workers are started
    int left = 0;                       ///< restarts that were left before this one
    std::string reason;  ///< "no restarts are left", "exit:84 is in --free-restart-on"; empty: the budget allows it
};

/// Why there is no restart when --max-job-restarts is `restarts`.
std::string job_limit_reached(int restarts);

class RestartPolicy {
  public:
    RestartPolicy(RestartConfig rules, int max_restarts);

    /// The verdict on an attempt that ended with `failures` at steady time `now`. A restart is taken as made.
    RestartVerdict judge(const std::vector<WorkerFailure>& failures, std::chrono::milliseconds now);

    /// Restarts that other nodes' failures caused: `count` of them are spent here as well.
    void spend(int count) { spent_ += count; }
    /// What the node that failed has spent, by its own account: all nodes go on with that.
    void agree_on(int spent) { spent_ = spent; }

    /// Restarts that count against --max-restarts so far.
    int spent() const { return spent_; }
    /// Whether the user gave a rule beyond --max-restarts.
    bool has_rules() const;

  private:
    std::string forbidden(const std::vector<WorkerFailure>& failures, const WorkerFailure& root,
                          std::chrono::milliseconds now) const;
    std::chrono::milliseconds next_wait();

    RestartConfig rules_;
    int max_restarts_;
    int spent_ = 0;
    int in_a_row_ = 0;                            ///< restarts since the last healthy time
    std::deque<std::chrono::milliseconds> made_;  ///< times of the restarts in the window
};

}  // namespace cpprun
