// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/run_index.hpp"

#include "core/logs/log_layout.hpp"
#include "cpprun/version.hpp"

namespace cpprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr int index_version = 1;

Json worker_entry(const RoundHistory& round, const WorkerHistory& worker, const LogConfig& logs) {
    const int rank = worker.local_rank;
    Json entry{{"local_rank", rank}, {"rank", round.place.ranks.global_base + rank}, {"pid", worker.pid}};
    if (worker.status) {
        entry["end"] = name_of(worker.end);
        entry[worker.status->signaled ? "signal" : "exit_code"] = worker.status->value;
        entry["ended"] = utc_text(worker.ended.since_epoch);
    }
    if (round.log_directory.empty()) return entry;
    entry["error_file"] = error_file_path(round.log_directory, rank);
    for (const Std stream : {Std::out, Std::err})
        if (contains(logs.redirects.of(rank), stream) || contains(logs.tee.of(rank), stream))
            entry[stream == Std::out ? "stdout" : "stderr"] = stream_log_path(round.log_directory, rank, stream);
    return entry;
}

Json round_entry(const RoundHistory& round, const LogConfig& logs) {
    Json entry{{"round", round.place.round},
               {"restart_count", round.place.restart_count},
               {"reason", round.reason},
               {"formed", utc_text(round.formed.since_epoch)},
               {"members", round.place.members},
               {"group_rank", round.place.ranks.group_rank},
               {"world_size", round.place.ranks.world_size},
               {"log_directory", round.log_directory}};
    if (round.ended) {
        entry["ended"] = utc_text(round.ended->since_epoch);
        entry["end_reason"] = round.end_reason;
    }
    entry["workers"] = Json::array();
    for (const WorkerHistory& worker : round.workers) entry["workers"].push_back(worker_entry(round, worker, logs));
    return entry;
}

}  // namespace

bool leaves_run_index(const LogConfig& logs, int nproc) {
    if (logs.disabled || logs.base_dir) return !logs.disabled;
    for (int rank = 0; rank < nproc; ++rank)
        if (logs.redirects.of(rank) != Std::none || logs.tee.of(rank) != Std::none) return true;
    return false;
}

std::string run_index(const ChronicleRun& run, const LogConfig& logs, std::string_view configuration,
                      const std::vector<RoundHistory>& rounds, const RunResult* result) {
    Json out{{"v", index_version},
             {"cpprun", version},
             {"run_id", run.run_id},
             {"host", run.host},
             {"agent_pid", run.agent_pid},
             {"command", run.command},
             {"outcome", result == nullptr ? "running" : name_of(result->outcome)}};
    if (result != nullptr) {
        out["restarts_used"] = result->restarts_used;
        if (result->outcome == RunResult::Outcome::signaled) out["signal"] = result->signo;
        if (!result->error.message.empty()) out["message"] = result->error.message;
    }
    out["rounds"] = Json::array();
    for (const RoundHistory& round : rounds) out["rounds"].push_back(round_entry(round, logs));
    out["configuration"] = Json::parse(configuration, nullptr, false);
    if (out["configuration"].is_discarded()) out["configuration"] = nullptr;
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cpprun
