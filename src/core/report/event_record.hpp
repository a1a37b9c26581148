// SPDX-License-Identifier: BSD-3-Clause
// The lines of `--event-log-handler=console`: one JSON object per event, on stderr (contract 8.3). Tools parse them, so
// keys, their order, types and the JSON text within the JSON are torchrun's, byte for byte.
#pragma once

#include <optional>
#include <string>

namespace cpprun {

/// The state that an event tells of. An agent has rendezvous to succeeded and failed, a worker start to failed.
enum class EventState {
    rendezvous,           ///< agent: the rendezvous has completed; with duration
    assign_worker_ranks,  ///< agent: the ranks are known; with duration
    start,                ///< worker: it runs
    succeeded,            ///< worker: exit code 0; agent: its run came to an end, also when workers failed
    terminated,           ///< worker: exited with 0 when the agent stopped it, because another one had failed
    failed,               ///< worker: failed, or died of the agent's signal; agent: it could not go on, or got a signal
};

/// What all events of one run say alike, but for the counters.
struct EventRun {
    std::string run_id;
    std::string role;
    std::string hostname;      ///< the full name
    std::string rdzv_backend;  ///< "c10d" or "static"
    std::string entry_point;   ///< basename of what is executed: "python3", "sh"
    int agent_restarts = 0;
    long total_run_time = 0;  ///< whole seconds since the agent's start; 0 in all but the last events
};

struct AgentEventRecord {
    EventState state = EventState::rendezvous;
    /// None in the first round's rendezvous and assign_worker_ranks; later rounds carry those of the round before.
    std::optional<int> group_rank = std::nullopt;
    std::optional<int> group_world_size = std::nullopt;  ///< the same
    std::optional<double> duration_ms = std::nullopt;
    std::optional<std::string> raw_error = std::nullopt;  ///< why the agent failed
};

struct WorkerEventRecord {
    EventState state = EventState::start;
    int global_rank = 0;
    int group_rank = 0;
    int group_world_size = 1;
    int local_rank = 0;
    int role_rank = 0;
    int role_world_size = 1;
    int pid = 0;
    std::optional<int> exit_code = std::nullopt;  ///< failed workers only; -n for signal n
    /// Failed workers only: the text of their error file as JSON, or worker_without_error_file.
    std::optional<std::string> raw_error = std::nullopt;
};

/// raw_error of a failed worker that left no error file.
extern const char* const worker_without_error_file;

/// The event as one line, without a line break. Bytes that are no UTF-8 become U+FFFD.
std::string event_line(const EventRun& run, const AgentEventRecord& event);
std::string event_line(const EventRun& run, const WorkerEventRecord& event);

}  // namespace cpprun
