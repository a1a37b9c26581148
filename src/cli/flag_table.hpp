// SPDX-License-Identifier: BSD-3-Clause
// The one table of options: the command line, --help, --print-completion, the PET_* variables and docs/cli.md are all
// made from it. Rows that torchrun has stand in torchrun's order (contract 1.1), as that order shows in messages about
// ambiguous abbreviations; cpprun's own options (`extension`) follow them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace cpprun {

/// Names each row of the table; the enumerator's number is the row's index.
enum class OptionId : std::size_t {
    help,
    nnodes,
    nproc_per_node,
    rdzv_backend,
    rdzv_endpoint,
    rdzv_id,
    rdzv_conf,
    standalone,
    max_restarts,
    monitor_interval,
    start_method,
    event_log_handler,
    role,
    module,
    no_python,
    run_path,
    log_dir,
    redirects,
    tee,
    log_line_prefix_template,
    local_ranks_filter,
    duplicate_stdout_filters,
    duplicate_stderr_filters,
    node_rank,
    master_addr,
    master_port,
    local_addr,
    logs_specs,
    numa_binding,
    signals_to_handle,
    shutdown_timeout,
    virtual_local_rank,
    print_completion,
    pass_local_rank,
    omp_threads,
    worker_store,
    exit_code,
    settle_time,
    forward_signals,
    requeue_exit_code,
    stdin_rank,
    health_file,
    health_port,
    health_bind,
    no_restart_on,
    free_restart_on,
    min_uptime,
    restart_backoff,
    restart_window,
    restart_budget_renewed_after,
    max_job_restarts,
    max_membership_changes,
    strict_devices,
    cpu_count,
    store_only,
    master_port_range,
    store_bind,
    store_allow,
    store_legacy,
    rank_order,
    lost_after,
    silent_after,
    exit_barrier_timeout,
    events,
    capture,
    log_prefix,
    color,
    ranks_filter,
    fold_lines,
    progress_bars,
    containment,
    kill_descendants,
    stop_signal_to,
    no_forward,
    no_task_warning,
    hang_after,
    hang_action,
    stack_signal,
    stack_tool,
    share_last_words,
    print_config,
    version,
};
inline constexpr std::size_t option_count = static_cast<std::size_t>(OptionId::version) + 1;

/// How a value is read. `integer` and `real` follow Python's int() and float(); `choice` takes one word of `choices`.
enum class OptionKind { flag, text, integer, real, choice };

/// One option. All texts have static lifetime; what a row does not have is empty.
struct OptionSpec {
    OptionId id = OptionId::help;
    std::string_view dashed;       ///< long name as documented, with its two dashes
    std::string_view underscored;  ///< the same with underscores; empty where both are equal
    char letter = 0;               ///< the short option's letter, or 0
    OptionKind kind = OptionKind::flag;
    std::string_view metavar;       ///< what the value is called in help; empty for flags
    std::string_view variable;      ///< environment variable consulted when the option is not given
    std::string_view default_text;  ///< as a user would write it; empty: no value
    std::string_view choices;       ///< comma-separated, for OptionKind::choice
    std::string_view accepted;      ///< what a value may look like, for error messages; empty for flags and choices
    std::string_view group;         ///< heading in the help text
    bool collects = false;          ///< given more than once, all values count
    bool extension = false;         ///< cpprun's own: known by its full name only, never by an abbreviation
    std::string_view help;          ///< one to three plain sentences
};

/// All rows, in order of OptionId.
std::span<const OptionSpec> flag_table();

/// The row of `id`.
const OptionSpec& option(OptionId id);

/// The option's spellings joined by slashes, short one first, as argparse names an argument in its messages:
/// "-r/--redirects", "--max-restarts/--max_restarts".
std::string spellings(const OptionSpec& spec);

}  // namespace cpprun
