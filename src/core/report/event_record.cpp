// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/event_record.hpp"

#include "core/text/python_json.hpp"

namespace cpprun {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(EventState state) {
    switch (state) {
        case EventState::rendezvous:
            return "RENDEZVOUS";
        case EventState::assign_worker_ranks:
            return "ASSIGN_WORKER_RANKS";
        case EventState::start:
            return "START";
        case EventState::succeeded:
            return "SUCCEEDED";
        case EventState::terminated:
            return "TERMINATED";
        case EventState::failed:
            return "FAILED";
    }
    return "FAILED";
}

template <class T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json one_element(Json value) {
    return Json::array({std::move(value)});
}

/// What differs between the two sources.
struct Source {
    const char* name = "";
    Json global_rank;
    Json group_rank;
    Json worker_id;
    Json details;  ///< becomes text within the event
};

std::string line(const EventRun& run, EventState state, const Source& source,
                 const std::optional<std::string>& raw_error, const std::optional<double>& duration_ms) {
    const Json metadata = {{"run_id", run.run_id},
                           {"global_rank", source.global_rank},
                           {"group_rank", source.group_rank},
                           {"worker_id", source.worker_id},
                           {"role", run.role},
                           {"hostname", run.hostname},
                           {"state", name_of(state)},
                           {"total_run_time", run.total_run_time},
                           {"rdzv_backend", run.rdzv_backend},
                           {"raw_error", or_null(raw_error)},
                           {"metadata", python_json(source.details)},
                           {"agent_restarts", run.agent_restarts},
                           {"duration_ms", or_null(duration_ms)}};
    return python_json({{"name", std::string("torchelastic.worker.status.") + name_of(state)},
                        {"source", source.name},
                        {"timestamp", 0},
                        {"metadata", metadata}});
}

Json shared_details(const EventRun& run, Json group_world_size) {
    return {{"group_world_size", std::move(group_world_size)}, {"entry_point", run.entry_point}};
}

}  // namespace

const char* const worker_without_error_file =
    R"({"message": "<NONE>", "errorTraits": {"category": "system_terminated_error", "retryability": "False"}})";

std::string event_line(const EventRun& run, const AgentEventRecord& event) {
    const Source agent{.name = "AGENT",
                       .global_rank = nullptr,
                       .group_rank = or_null(event.group_rank),
                       .worker_id = nullptr,
                       .details = shared_details(run, or_null(event.group_world_size))};
    return line(run, event.state, agent, event.raw_error, event.duration_ms);
}

std::string event_line(const EventRun& run, const WorkerEventRecord& event) {
    Json details = shared_details(run, event.group_world_size);
    const bool failed = event.exit_code.has_value();
    details["local_rank"] = one_element(event.local_rank);
    details["role_rank"] = one_element(event.role_rank);
    details["role_world_size"] = one_element(event.role_world_size);
    details["exit_code"] = one_element(or_null(event.exit_code));
    details["worker_pid"] = one_element(failed ? Json(event.pid) : Json(nullptr));
    const Source worker{.name = "WORKER",
                        .global_rank = event.global_rank,
                        .group_rank = event.group_rank,
                        .worker_id = std::to_string(event.pid),
                        .details = std::move(details)};
    return line(run, event.state, worker, event.raw_error, std::nullopt);
}

}  // namespace cpprun
