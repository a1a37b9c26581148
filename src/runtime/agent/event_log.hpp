// SPDX-License-Identifier: BSD-3-Clause
// --event-log-handler=console: one JSON line on stderr for what happens to the agent and its workers (contract 8.3).
#pragma once

#include "core/agent/agent_events.hpp"
#include "core/agent/rank_assignment.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"
#include "core/report/event_record.hpp"

#include <chrono>
#include <optional>
#include <vector>

namespace cpprun {

class EventLog {
  public:
    /// Says nothing unless the configuration asks for the console.
    EventLog(const LaunchConfig& config, const HostFacts& host);

    /// A round is complete and its ranks are known; `duration` is how long that took.
    void ranks_assigned(const RankRange& ranks, int restart_count, std::chrono::duration<double, std::milli> duration);
    /// All workers of the attempt run; pids by local rank.
    void workers_started(const std::vector<int>& pids);
    /// The run is over. `statuses` by local rank; none for a worker that was abandoned.
    void run_ended(const RunResult& result, const std::vector<std::optional<ExitStatus>>& statuses);

  private:
    WorkerEventRecord worker(int local_rank, EventState state) const;
    void worker_ended(int local_rank, const std::optional<ExitStatus>& status, const RunResult& result);
    void print(const AgentEventRecord& event) const;
    void print(const WorkerEventRecord& event) const;

    bool enabled_;
    int pid_;
    EventRun run_;
    std::optional<RankRange> ranks_;
    std::vector<int> pids_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace cpprun
