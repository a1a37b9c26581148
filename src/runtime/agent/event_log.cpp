// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/agent/event_log.hpp"

#include "core/agent/worker_command.hpp"
#include "core/option_names.hpp"
#include "core/text/python_json.hpp"
#include "runtime/diagnostics.hpp"
#include "runtime/os/host_name.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cpprun {

EventLog::EventLog(const LaunchConfig& config, const HostFacts& host)
    : enabled_(config.event_log_handler == "console"), pid_(host.pid) {
    if (!enabled_) return;
    run_.run_id = config.rendezvous.run_id;
    run_.role = config.role;
    run_.hostname = full_host_name(host.host_name);
    run_.rdzv_backend = name_of(config.rendezvous.kind);
    run_.entry_point = entrypoint_name(config.program);
}

void EventLog::ranks_assigned(const RankRange& ranks, int restart_count,
                              std::chrono::duration<double, std::milli> duration) {
    if (!enabled_) return;
    run_.agent_restarts = restart_count;
    const auto say = [&](EventState state) {
        AgentEventRecord event;
        event.state = state;
        event.duration_ms = duration.count();
        if (ranks_) {
            event.group_rank = ranks_->group_rank;
            event.group_world_size = ranks_->group_world_size;
        }
        print(event);
    };
    // torchrun keeps the ranks only after both: in the first round neither event has them.
    say(EventState::rendezvous);
    say(EventState::assign_worker_ranks);
    ranks_ = ranks;
}

void EventLog::workers_started(const std::vector<int>& pids) {
    pids_ = pids;
    if (!enabled_) return;
    for (std::size_t rank = 0; rank < pids.size(); ++rank) print(worker(static_cast<int>(rank), EventState::start));
}

void EventLog::run_ended(const RunResult& result, const std::vector<std::optional<ExitStatus>>& statuses) {
    if (!enabled_) return;
    run_.total_run_time =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - began_).count();
    AgentEventRecord agent;
    if (ranks_) {
        agent.group_rank = ranks_->group_rank;
        agent.group_world_size = ranks_->group_world_size;
    }
    const bool workers_decided =
        result.outcome == RunResult::Outcome::succeeded || result.outcome == RunResult::Outcome::workers_failed;
    if (!workers_decided) {
        agent.state = EventState::failed;
        agent.raw_error = result.outcome == RunResult::Outcome::signaled
                              ? fmt::format("SignalException: Process {} got signal: {}", pid_, result.signo)
                              : result.error.message;
        print(agent);
        return;
    }
    for (std::size_t rank = 0; rank < statuses.size(); ++rank)
        worker_ended(static_cast<int>(rank), statuses[rank], result);
    agent.state = EventState::succeeded;
    print(agent);
}

void EventLog::worker_ended(int local_rank, const std::optional<ExitStatus>& status, const RunResult& result) {
    if (status && status->success()) {
        const bool alone = result.outcome == RunResult::Outcome::succeeded;
        print(worker(local_rank, alone ? EventState::succeeded : EventState::terminated));
        return;
    }
    WorkerEventRecord event = worker(local_rank, EventState::failed);
    if (status) event.exit_code = status->python_code();
    const auto failure = std::find_if(result.failures.begin(), result.failures.end(),
                                      [&](const WorkerFailure& f) { return f.local_rank == local_rank; });
    const bool recorded = failure != result.failures.end() && failure->record;
    event.raw_error = recorded ? python_json(failure->record->json) : worker_without_error_file;
    print(event);
}

WorkerEventRecord EventLog::worker(int local_rank, EventState state) const {
    const RankRange ranks = ranks_.value_or(RankRange{});
    WorkerEventRecord event;
    event.state = state;
    event.global_rank = ranks.global_base + local_rank;
    event.group_rank = ranks.group_rank;
    event.group_world_size = ranks.group_world_size;
    event.local_rank = local_rank;
    event.role_rank = ranks.role_base + local_rank;
    event.role_world_size = ranks.role_world_size;
    if (static_cast<std::size_t>(local_rank) < pids_.size()) event.pid = pids_[static_cast<std::size_t>(local_rank)];
    return event;
}

void EventLog::print(const AgentEventRecord& event) const {
    print_to_stderr(event_line(run_, event));
}

void EventLog::print(const WorkerEventRecord& event) const {
    print_to_stderr(event_line(run_, event));
}

}  // namespace cpprun
