// SPDX-License-Identifier: BSD-3-Clause
// All that one launch needs, checked and complete. cli/resolve_config.cpp makes it; nothing below the command line
// sees a string that still needs parsing, and nothing changes it afterwards.
#pragma once

#include "core/agent/exit_status.hpp"
#include "core/store/port_range.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

/// How a worker's command line is made (contract 1.7).
enum class ProgramKind {
    python_script,  ///< PYTHON -u SCRIPT ARGS
    python_module,  ///< PYTHON -u -m MODULE ARGS
    executable,     ///< SCRIPT ARGS: --no-python, or a native executable given as SCRIPT
    run_path,       ///< PYTHON runs the file in-process as __main__ (--run-path)
};

/// Which streams of a worker an option speaks of. The numbers are torchrun's (contract 5.2).
enum class Std : std::uint8_t { none = 0, out = 1, err = 2, all = 3 };

constexpr bool contains(Std set, Std stream) {
    return (static_cast<unsigned>(set) & static_cast<unsigned>(stream)) != 0;
}

/// The value of --redirects or --tee: one choice for all, or a choice for some local ranks and none for the others.
struct StdSpec {
    Std for_all = Std::none;
    std::map<int, Std> by_rank = {};  ///< when not empty, ranks that are not in it have Std::none

    Std of(int local_rank) const {
        if (by_rank.empty()) return for_all;
        const auto found = by_rank.find(local_rank);
        return found == by_rank.end() ? Std::none : found->second;
    }
};

enum class NumaBinding { none, node, socket, exclusive, core_complex };

enum class RendezvousKind { static_ranks, c10d };

/// Which nodes come first in a round of c10d, where their wishes do not decide.
enum class RankOrder : std::uint8_t {
    natural,        ///< node2 before node10
    lexicographic,  ///< like text, as torch
    host_first,     ///< the node that hosts the store, then the others in natural order
};

/// Who serves the store that workers connect to.
enum class WorkerStore {
    agent,  ///< the agent; workers see TORCHELASTIC_USE_AGENT_STORE=True
    rank0,  ///< worker 0, on a port that the agent holds bound for it; workers see False
};

enum class ExitCodePolicy {
    torchrun,  ///< 1 for any worker failure
    worker,    ///< the root cause's own code, 128+n for a signal
};

/// What keeps a worker and all that it started together, so that nothing is left behind (docs/processes.md).
enum class ContainmentTier : std::uint8_t {
    cgroup,  ///< a cgroup for each worker, below the one in which the launch was started
    guard,   ///< a guard process for each worker, to which all that it started falls
    group,   ///< the worker's session and its process groups
};

/// What becomes of a worker's descendants when the worker has ended by itself.
enum class KillDescendants : std::uint8_t {
    by_exit_code,  ///< killed after a failure, left alone after exit code 0
    always,
    never,
};

/// Who of a worker gets the stop signal first.
enum class StopTarget : std::uint8_t {
    group,  ///< the worker's process group
    rank,   ///< the worker's own process alone
};

struct RendezvousConfig {
    RendezvousKind kind = RendezvousKind::c10d;
    std::string run_id;
    std::string endpoint;               ///< as it stands in the INFO block: "host:port"
    std::string host;                   ///< host part of the endpoint, without brackets
    std::optional<std::uint16_t> port;  ///< none or 0: any free port
    int min_nodes = 1;
    int max_nodes = 1;
    int node_rank = 0;
    bool node_rank_given = false;             ///< under c10d a wish that is honoured where it can be
    std::optional<std::string> local_addr;    ///< --local-addr
    std::map<std::string, std::string> conf;  ///< --rdzv-conf, `timeout` filled in
    bool standalone = false;                  ///< --standalone was given (its INFO banner is shown)
    bool endpoint_given = false;              ///< the user named an endpoint: the store listens on all interfaces
    RankOrder rank_order = RankOrder::natural;
    std::chrono::milliseconds lost_after{1'000};              ///< after a closed connection
    std::chrono::milliseconds silent_after{10'000};           ///< without a sign of life
    std::chrono::milliseconds exit_barrier_timeout{300'000};  ///< max(): without a bound
};

struct ProgramConfig {
    ProgramKind kind = ProgramKind::python_script;
    std::string script;              ///< SCRIPT as given; "./NAME" for a native one without a slash
    std::vector<std::string> args;   ///< ARGS as given, macros not yet replaced
    std::string interpreter;         ///< absolute path, or PYTHON_EXEC as given; empty with `executable`
    bool interpreter_is_own = true;  ///< false when PYTHON_EXEC chose it (the failure table's title changes)
    std::string interpreter_reason;  ///< why this interpreter, for INFO
    bool native_script = false;      ///< SCRIPT was found to be a native executable and runs without Python
    bool pass_local_rank = false;    ///< insert --local-rank=N before ARGS
    std::string start_method = "spawn";
};

/// How a worker's stderr reaches the console where neither --redirects nor --tee puts it into a file.
enum class Capture : std::uint8_t {
    off,        ///< it is the launcher's own
    automatic,  ///< as `file`, unless the launcher's stderr is a terminal
    file,       ///< by way of a file of the launcher's, which keeps the last words
    pty,        ///< it is a pseudo-terminal, whose bytes go into such a file
    pipe,       ///< it is a pipe, whose bytes go into such a file
};

/// --progress-bars: what the console shows of teed lines that a carriage return begins anew.
enum class ProgressBars : std::uint8_t {
    newest,  ///< the newest state now and then, over the last one where the console is a terminal
    all,     ///< each state as a line
};

/// Ranks from `first` to `last`, both included.
struct RankSpan {
    std::int64_t first = 0;
    std::int64_t last = 0;
};

/// --color: of prefixes and of the launcher's own lines.
enum class ColorWhen : std::uint8_t {
    automatic,  ///< on a terminal that knows colours, unless NO_COLOR is set
    always,
    never,
};

struct LogConfig {
    std::optional<std::string> base_dir;  ///< --log-dir; none: a fresh folder below the temporary one
    bool disabled = false;                ///< --log-dir=/dev/null
    StdSpec redirects;
    StdSpec tee;
    std::optional<std::string> line_prefix_template;
    std::optional<std::string> prefix_template;  ///< --log-prefix, presets spelt out; beats line_prefix_template
    ColorWhen color = ColorWhen::automatic;
    ProgressBars progress_bars = ProgressBars::newest;
    std::vector<int> local_ranks_filter;       ///< empty: all
    std::vector<RankSpan> ranks_filter;        ///< of global ranks; empty: all
    std::optional<std::int64_t> reading_rank;  ///< the global rank that gets stdin is shown whatever the filters say
    std::chrono::milliseconds fold_window{0};  ///< within which equal lines of several ranks are one; 0: never
    std::vector<std::string> duplicate_stdout_filters;
    std::vector<std::string> duplicate_stderr_filters;
    Capture capture = Capture::off;
    bool share_last_words = true;  ///< --share-last-words: other nodes know the end of each stderr
};

struct StopConfig {
    std::vector<std::string> signals_to_handle;  ///< names as given, blanks trimmed
    std::string signals_to_handle_text;          ///< the option's value, exported verbatim
    std::chrono::seconds shutdown_timeout{30};   ///< from the stop signal to SIGKILL, on every path
    std::chrono::milliseconds settle_time{30};   ///< from the first failure to the stop signal
    ExitCodePolicy exit_code = ExitCodePolicy::torchrun;
    std::optional<ContainmentTier> containment;  ///< none: the best that the machine offers
    KillDescendants kill_descendants = KillDescendants::by_exit_code;
    StopTarget stop_signal_to = StopTarget::group;
    bool no_forward = false;                 ///< signals are not passed on: their sender tells the workers itself
    std::vector<int> forward_signals;        ///< --forward-signals: passed on to the workers, and nothing else
    std::optional<int> requeue_exit_code;    ///< of a run that a handled signal ended
    std::optional<std::int64_t> stdin_rank;  ///< --stdin: the global rank that gets stdin, the others /dev/null
};

/// A debugger that is asked for a worker's stack.
enum class StackTool : std::uint8_t { none, py_spy, gdb };

/// Workers that do not move (docs/hangs.md).
struct HangConfig {
    std::chrono::milliseconds after{0};  ///< --hang-after: without output or heartbeat; 0: nobody looks
    bool fails = false;                  ///< --hang-action=fail: counts as a failure
    int stack_signal = 0;                ///< --stack-signal: on which workers write their stack; 0: none
    StackTool tool = StackTool::none;    ///< --stack-tool
};

/// Signs of life for whatever watches over the agent.
struct HealthConfig {
    std::optional<std::string> file;    ///< --health-file
    std::optional<std::uint16_t> port;  ///< --health-port, or TORCHELASTIC_HEALTH_CHECK_PORT
    std::string bind = "127.0.0.1";     ///< --health-bind: an address, IPv6 without brackets
};

/// Rules for restarts beyond --max-restarts; at their defaults there are none.
struct RestartConfig {
    std::vector<ExitStatus> never_on;            ///< --no-restart-on
    std::vector<ExitStatus> free_on;             ///< --free-restart-on: does not count against --max-restarts
    std::chrono::milliseconds min_uptime{0};     ///< a worker that failed earlier than this is not restarted
    std::chrono::milliseconds backoff_first{0};  ///< wait before the first restart
    std::chrono::milliseconds backoff_max{0};    ///< bound of the doubling; not above `backoff_first`: no doubling
    int window_restarts = 0;                     ///< at most so many restarts within `window`; 0: no bound
    std::chrono::milliseconds window{0};
    std::optional<int> job_restarts;             ///< --max-job-restarts: those of all nodes together
    std::optional<int> membership_changes;       ///< --max-membership-changes: of the nodes of a c10d job
    std::chrono::milliseconds renewed_after{0};  ///< an attempt that ran this long gives all restarts back; 0: never
};

/// The store that the workers connect to, as far as the command line decides; texts are not yet parsed.
struct StoreConfig {
    bool only = false;                ///< --store-only: no agent, no workers, nothing but a store
    bool legacy = false;              ///< --store-legacy: the protocol of PyTorch before 2.2
    std::optional<std::string> bind;  ///< --store-bind: an address
    std::vector<std::string> allow;   ///< --store-allow: networks in CIDR form; empty: all
    PortRange worker_ports;           ///< --master-port-range: for a store of the workers' own; 0: any free port
};

struct LaunchConfig {
    RendezvousConfig rendezvous;
    ProgramConfig program;
    LogConfig logs;
    StopConfig stop;
    RestartConfig restart;
    HealthConfig health;
    HangConfig hang;
    StoreConfig store;
    int nproc_per_node = 1;
    std::string nproc_text = "1";   ///< --nproc-per-node as given
    std::string nproc_explanation;  ///< INFO line that ends in "cpu -> 2 (…)"; empty for a number
    std::string role = "default";
    int max_restarts = 0;
    double monitor_interval = 0.1;  ///< seconds; accepted, a bound only
    std::string event_log_handler = "null";
    std::string events_file;  ///< --events; empty: none
    NumaBinding numa_binding = NumaBinding::none;
    bool virtual_local_rank = false;
    std::optional<std::string> omp_num_threads;  ///< what to export as OMP_NUM_THREADS; none: leave it as it is
    WorkerStore worker_store = WorkerStore::agent;
    std::chrono::duration<double> uninterruptible_timeout{0};  ///< > 0: a worker in state D that long fails the group
    std::string log_level = "WARNING";  ///< LOGLEVEL: a level name of Python's logging, upper case
    bool worker_identical = false;      ///< TORCH_ELASTIC_WORKER_IDENTICAL=1: ranks without asking peers
    bool file_timer = false;            ///< TORCHELASTIC_ENABLE_FILE_TIMER=1
};

/// A remark of the command line's that does not stop the launch. Shown once, at the given level.
struct Notice {
    enum class Level { info, warning };
    Level level = Level::warning;
    std::string text;
};

}  // namespace cpprun
