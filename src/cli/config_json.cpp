// SPDX-License-Identifier: BSD-3-Clause
#include "cli/config_json.hpp"

#include "core/option_names.hpp"

#include <nlohmann/json.hpp>

namespace cpprun {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

const char* name_of(ProgramKind kind) {
    switch (kind) {
        case ProgramKind::python_script:
            return "python_script";
        case ProgramKind::python_module:
            return "python_module";
        case ProgramKind::executable:
            return "executable";
        case ProgramKind::run_path:
            return "run_path";
    }
    return "";
}

const char* name_of(Capture capture) {
    switch (capture) {
        case Capture::off:
            return "off";
        case Capture::automatic:
            return "auto";
        case Capture::file:
            return "file";
        case Capture::pty:
            return "pty";
        case Capture::pipe:
            return "pipe";
    }
    return "";
}

const char* name_of(ColorWhen when) {
    switch (when) {
        case ColorWhen::automatic:
            return "auto";
        case ColorWhen::always:
            return "always";
        case ColorWhen::never:
            return "never";
    }
    return "";
}

Json streams_json(const StdSpec& spec) {
    if (spec.by_rank.empty()) return static_cast<int>(spec.for_all);
    Json map = Json::object();
    for (const auto& [rank, streams] : spec.by_rank) map[std::to_string(rank)] = static_cast<int>(streams);
    return map;
}

const char* name_of(RankOrder order) {
    switch (order) {
        case RankOrder::natural:
            return "natural";
        case RankOrder::lexicographic:
            return "lexicographic";
        case RankOrder::host_first:
            return "host-first";
    }
    return "";
}

double seconds(std::chrono::milliseconds time) {
    return std::chrono::duration<double>(time).count();
}

Json ranges_json(const std::vector<RankSpan>& ranges) {
    Json list = Json::array();
    for (const RankSpan& range : ranges) list.push_back({range.first, range.last});
    return list;
}

Json rendezvous_json(const RendezvousConfig& config) {
    return {{"backend", name_of(config.kind)},
            {"run_id", config.run_id},
            {"endpoint", config.endpoint},
            {"host", config.host},
            {"port", or_null(config.port)},
            {"min_nodes", config.min_nodes},
            {"max_nodes", config.max_nodes},
            {"node_rank", config.node_rank},
            {"local_addr", or_null(config.local_addr)},
            {"conf", config.conf},
            {"standalone", config.standalone},
            {"endpoint_given", config.endpoint_given},
            {"rank_order", name_of(config.rank_order)},
            {"lost_after", seconds(config.lost_after)},
            {"silent_after", seconds(config.silent_after)},
            {"exit_barrier_timeout", config.exit_barrier_timeout == std::chrono::milliseconds::max()
                                         ? Json(nullptr)
                                         : Json(seconds(config.exit_barrier_timeout))}};
}

Json program_json(const ProgramConfig& config) {
    return {{"kind", name_of(config.kind)},
            {"script", config.script},
            {"args", config.args},
            {"interpreter", config.interpreter},
            {"interpreter_is_own", config.interpreter_is_own},
            {"interpreter_reason", config.interpreter_reason},
            {"native_script", config.native_script},
            {"pass_local_rank", config.pass_local_rank},
            {"start_method", config.start_method}};
}

Json logs_json(const LogConfig& config) {
    return {{"base_dir", or_null(config.base_dir)},
            {"disabled", config.disabled},
            {"redirects", streams_json(config.redirects)},
            {"tee", streams_json(config.tee)},
            {"line_prefix_template", or_null(config.line_prefix_template)},
            {"local_ranks_filter", config.local_ranks_filter},
            {"duplicate_stdout_filters", config.duplicate_stdout_filters},
            {"duplicate_stderr_filters", config.duplicate_stderr_filters},
            {"capture", name_of(config.capture)},
            {"prefix_template", or_null(config.prefix_template)},
            {"color", name_of(config.color)},
            {"ranks_filter", ranges_json(config.ranks_filter)},
            {"fold_lines", seconds(config.fold_window)},
            {"progress_bars", config.progress_bars == ProgressBars::all ? "all" : "newest"},
            {"share_last_words", config.share_last_words}};
}

Json stop_json(const StopConfig& config) {
    return {{"signals_to_handle", config.signals_to_handle},
            {"signals_to_handle_text", config.signals_to_handle_text},
            {"shutdown_timeout", config.shutdown_timeout.count()},
            {"settle_time", std::chrono::duration<double>(config.settle_time).count()},
            {"exit_code", config.exit_code == ExitCodePolicy::worker ? "worker" : "torchrun"},
            {"containment", !config.containment                              ? "best"
                            : *config.containment == ContainmentTier::cgroup ? "cgroup"
                            : *config.containment == ContainmentTier::guard  ? "guard"
                                                                             : "group"},
            {"kill_descendants", config.kill_descendants == KillDescendants::always  ? "always"
                                 : config.kill_descendants == KillDescendants::never ? "never"
                                                                                     : "failure"},
            {"stop_signal_to", config.stop_signal_to == StopTarget::rank ? "rank" : "group"},
            {"no_forward", config.no_forward},
            {"forward_signals", config.forward_signals},
            {"requeue_exit_code", or_null(config.requeue_exit_code)},
            {"stdin_rank", or_null(config.stdin_rank)}};
}

Json restart_json(const RestartConfig& config) {
    const auto endings = [](const std::vector<ExitStatus>& list) {
        Json texts = Json::array();
        for (const ExitStatus& status : list) texts.push_back(exit_status_text(status));
        return texts;
    };
    return {{"never_on", endings(config.never_on)},
            {"free_on", endings(config.free_on)},
            {"min_uptime", seconds(config.min_uptime)},
            {"backoff_first", seconds(config.backoff_first)},
            {"backoff_max", seconds(config.backoff_max)},
            {"window_restarts", config.window_restarts},
            {"window", seconds(config.window)},
            {"job_restarts", or_null(config.job_restarts)},
            {"membership_changes", or_null(config.membership_changes)},
            {"budget_renewed_after", seconds(config.renewed_after)}};
}

Json health_json(const HealthConfig& config) {
    return {{"file", or_null(config.file)}, {"port", or_null(config.port)}, {"bind", config.bind}};
}

Json hang_json(const HangConfig& config) {
    return {{"after", seconds(config.after)},
            {"action", config.fails ? "fail" : "report"},
            {"stack_signal", config.stack_signal == 0 ? Json(nullptr) : Json(config.stack_signal)},
            {"stack_tool", config.tool == StackTool::gdb      ? "gdb"
                           : config.tool == StackTool::py_spy ? "py-spy"
                                                              : "none"}};
}

Json notices_json(const std::vector<Notice>& notices) {
    Json list = Json::array();
    for (const Notice& notice : notices)
        list.push_back({{"level", notice.level == Notice::Level::info ? "info" : "warning"}, {"text", notice.text}});
    return list;
}

}  // namespace

std::string config_json(const LaunchRequest& request) {
    const LaunchConfig& config = request.config;
    const char* binding = name_of(config.numa_binding);
    const Json json{{"rendezvous", rendezvous_json(config.rendezvous)},
                    {"program", program_json(config.program)},
                    {"logs", logs_json(config.logs)},
                    {"stop", stop_json(config.stop)},
                    {"restart", restart_json(config.restart)},
                    {"health", health_json(config.health)},
                    {"hang", hang_json(config.hang)},
                    {"store",
                     {{"served_by", config.worker_store == WorkerStore::agent ? "agent" : "rank0"},
                      {"only", config.store.only},
                      {"legacy", config.store.legacy},
                      {"worker_ports", {config.store.worker_ports.first, config.store.worker_ports.last}},
                      {"bind", or_null(config.store.bind)},
                      {"allow", config.store.allow}}},
                    {"nproc_per_node", config.nproc_per_node},
                    {"nproc_text", config.nproc_text},
                    {"nproc_explanation", config.nproc_explanation},
                    {"role", config.role},
                    {"max_restarts", config.max_restarts},
                    {"monitor_interval", config.monitor_interval},
                    {"event_log_handler", config.event_log_handler},
                    {"events", config.events_file},
                    {"numa_binding", binding == nullptr ? Json(nullptr) : Json(binding)},
                    {"virtual_local_rank", config.virtual_local_rank},
                    {"omp_num_threads", or_null(config.omp_num_threads)},
                    {"uninterruptible_timeout", config.uninterruptible_timeout.count()},
                    {"log_level", config.log_level},
                    {"worker_identical", config.worker_identical},
                    {"file_timer", config.file_timer},
                    {"notices", notices_json(request.notices)}};
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cpprun
