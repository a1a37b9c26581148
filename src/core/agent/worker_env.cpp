// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/worker_env.hpp"

#include "core/agent/signal_names.hpp"

namespace cpprun {

Environment rank_variables(const LaunchConfig& config, const WorkerPlace& place) {
    Environment out{
        {"LOCAL_RANK", config.virtual_local_rank ? "0" : std::to_string(place.local_rank)},
        {"RANK", std::to_string(place.ranks.global_base + place.local_rank)},
        {"ROLE_RANK", std::to_string(place.ranks.role_base + place.local_rank)},
        {"TORCHELASTIC_ERROR_FILE", place.error_file},
    };
    if (!place.heartbeat_socket.empty()) out["CPPRUN_HEARTBEAT_SOCKET"] = place.heartbeat_socket;
    return out;
}

Environment group_variables(const LaunchConfig& config, const WorkerPlace& place, const Environment& inherited) {
    const RankRange& ranks = place.ranks;
    const auto text = [](int n) { return std::to_string(n); };
    Environment out{
        {"GROUP_RANK", text(ranks.group_rank)},
        {"ROLE_NAME", config.role},
        {"LOCAL_WORLD_SIZE", text(ranks.local_world_size)},
        {"WORLD_SIZE", text(ranks.world_size)},
        {"GROUP_WORLD_SIZE", text(ranks.group_world_size)},
        {"ROLE_WORLD_SIZE", text(ranks.role_world_size)},
        {"MASTER_ADDR", place.master.host},
        {"MASTER_PORT", text(place.master.port)},
        {"TORCHELASTIC_RESTART_COUNT", text(place.restart_count)},
        {"TORCHELASTIC_MAX_RESTARTS", text(config.max_restarts)},
        {"TORCHELASTIC_RUN_ID", config.rendezvous.run_id},
        {"TORCHELASTIC_USE_AGENT_STORE", place.master.agent_store ? "True" : "False"},
        {"TORCHELASTIC_SIGNALS_TO_HANDLE", config.stop.signals_to_handle_text},
    };
    const auto nccl = inherited.find("TORCH_NCCL_ASYNC_ERROR_HANDLING");
    out["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = nccl == inherited.end() ? "1" : nccl->second;
    if (config.omp_num_threads) out["OMP_NUM_THREADS"] = *config.omp_num_threads;
    // Our own: torch's restart count differs between the nodes of one round.
    if (config.rendezvous.max_nodes > 1) out["CPPRUN_ROUND"] = std::to_string(place.round);
    if (config.hang.stack_signal != 0) out["CPPRUN_STACK_SIGNAL"] = signal_label(config.hang.stack_signal);
    if (!place.timer_file.empty()) out["TORCHELASTIC_TIMER_FILE"] = place.timer_file;
    return out;
}

Environment worker_variables(const LaunchConfig& config, const WorkerPlace& place, const Environment& inherited) {
    Environment out = group_variables(config, place, inherited);
    out.merge(rank_variables(config, place));
    return out;
}

}  // namespace cpprun
