// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/info_blocks.hpp"

#include "core/option_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace cpprun {
namespace {

bool is_number(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// The configuration as Python shows a dict: what torchrun fills in itself is a number, the rest is text.
std::string conf_text(const RendezvousConfig& rendezvous) {
    std::vector<std::string> items;
    const auto add = [&](const std::string& key, const std::string& value) {
        items.push_back(key == "timeout" && is_number(value) ? fmt::format("'{}': {}", key, value)
                                                             : fmt::format("'{}': '{}'", key, value));
    };
    for (const auto& [key, value] : rendezvous.conf)
        if (key != "rank") add(key, value);
    if (rendezvous.kind == RendezvousKind::static_ranks)
        items.push_back(fmt::format("'rank': {}", rendezvous.node_rank));
    return fmt::format("{{{}}}", fmt::join(items, ", "));
}

std::string list_text(const std::vector<std::string>& words) {
    std::vector<std::string> quoted;
    for (const std::string& word : words) quoted.push_back("'" + word + "'");
    return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string same(int value, int count) {
    return fmt::format("[{}]", fmt::join(std::vector<int>(static_cast<std::size_t>(count), value), ", "));
}

std::string counting_from(int first, int count) {
    std::vector<int> values;
    for (int i = 0; i < count; ++i) values.push_back(first + i);
    return fmt::format("[{}]", fmt::join(values, ", "));
}

}  // namespace

std::string standalone_block(const LaunchConfig& config) {
    const std::string stars(38, '*');
    return fmt::format("\n{}\nRendezvous info:\n--rdzv-backend=c10d --rdzv-endpoint={} --rdzv-id={}\n{}\n", stars,
                       config.rendezvous.endpoint, config.rendezvous.run_id, stars);
}

std::string launch_block(const LaunchConfig& config, const std::string& log_base) {
    std::string out = "Starting elastic_operator with launch configs:\n";
    const auto line = [&](const char* name, const std::string& value) {
        out += fmt::format("  {:<24} : {}\n", name, value);
    };
    line("entrypoint", config.program.kind == ProgramKind::run_path ? "run_script_path" : config.program.script);
    line("min_nodes", std::to_string(config.rendezvous.min_nodes));
    line("max_nodes", std::to_string(config.rendezvous.max_nodes));
    line("nproc_per_node", std::to_string(config.nproc_per_node));
    line("run_id", config.rendezvous.run_id);
    line("rdzv_backend", name_of(config.rendezvous.kind));
    line("rdzv_endpoint", config.rendezvous.endpoint);
    line("rdzv_configs", conf_text(config.rendezvous));
    line("max_restarts", std::to_string(config.max_restarts));
    line("monitor_interval", fmt::format("{}", config.monitor_interval));
    line("log_dir", log_base);
    line("metrics_cfg", "{}");
    line("event_log_handler", config.event_log_handler);
    line("numa_options", config.numa_binding == NumaBinding::none ? "None" : name_of(config.numa_binding));
    line("signals_to_handle", config.stop.signals_to_handle_text);
    line("duplicate_stdout_filters", list_text(config.logs.duplicate_stdout_filters));
    line("duplicate_stderr_filters", list_text(config.logs.duplicate_stderr_filters));
    return out;
}

std::string rendezvous_block(const LaunchConfig& config, int restart_count, const MasterAddress& master,
                             const RankRange& ranks) {
    const int n = ranks.local_world_size;
    return fmt::format(
        "[{}] Rendezvous complete for workers. Result:\n  restart_count={}\n  master_addr={}\n  master_port={}\n"
        "  group_rank={}\n  group_world_size={}\n  local_ranks={}\n  role_ranks={}\n  global_ranks={}\n"
        "  role_world_sizes={}\n  global_world_sizes={}\n  event_log_handler={}\n",
        config.role, restart_count, master.host, master.port, ranks.group_rank, ranks.group_world_size,
        counting_from(0, n), counting_from(ranks.role_base, n), counting_from(ranks.global_base, n),
        same(ranks.role_world_size, n), same(ranks.world_size, n), config.event_log_handler);
}

}  // namespace cpprun
