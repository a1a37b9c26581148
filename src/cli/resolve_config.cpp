// SPDX-License-Identifier: BSD-3-Clause
#include "cli/resolve_config.hpp"

#include "cli/batch_system.hpp"
#include "cli/check_program.hpp"
#include "cli/duration.hpp"
#include "cli/network_address.hpp"
#include "cli/pet_environment.hpp"
#include "cli/python_repr.hpp"
#include "cli/resolve_rendezvous.hpp"
#include "cli/resolve_restarts.hpp"
#include "cli/split_list.hpp"
#include "cli/wrong_value.hpp"
#include "core/agent/signal_names.hpp"
#include "core/devices/cpu_count.hpp"
#include "core/devices/virtual_rank.hpp"
#include "core/devices/worker_count.hpp"
#include "core/logs/prefix_template.hpp"
#include "core/logs/std_spec.hpp"
#include "core/text/python_number.hpp"
#include "core/text/whole_number.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <limits>
#include <optional>

namespace cpprun {
namespace {

/// Linux gives out no more process ids than this (proc(5), pid_max), so no node has more workers.
constexpr std::int64_t workers_max = 4194304;

const std::string* find_variable(const Environment& environment, const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : &found->second;
}

bool variable_is_one(const Environment& environment, const char* name) {
    const std::string* value = find_variable(environment, name);
    return value != nullptr && *value == "1";
}

/// A list of texts between single commas; two commas stand for one within a text.
std::vector<std::string> split_filters(std::string_view text) {
    std::vector<std::string> parts(1);
    for (std::size_t at = 0; at < text.size(); ++at) {
        const bool comma = text[at] == ',';
        const bool doubled = comma && at + 1 < text.size() && text[at + 1] == ',';
        if (comma && !doubled) {
            parts.emplace_back();
        } else {
            parts.back() += text[at];
            at += doubled ? 1 : 0;
        }
    }
    return parts;
}

/// Carries the inputs of one resolution and collects its notices. Each step fills in its part of `config_`.
class Resolver {
  public:
    Resolver(const RawArgs& raw, const HostFacts& host, const FileLookup& files, const ProbeDevices& probe_devices)
        : raw_(raw), host_(host), files_(files), probe_devices_(probe_devices) {}

    Result<LaunchRequest> run() {
        BOOST_OUTCOME_TRY(const NodeRange nodes, parse_node_range(raw_));
        BOOST_OUTCOME_TRY(config_.max_restarts, whole_number(OptionId::max_restarts));
        BOOST_OUTCOME_TRY(resolve_workers());
        BOOST_OUTCOME_TRY(resolve_omp_threads());
        BOOST_OUTCOME_TRY(config_.rendezvous, resolve_rendezvous(raw_, nodes, host_, notices_));
        BOOST_OUTCOME_TRY(resolve_logs());
        BOOST_OUTCOME_TRY(resolve_stopping());
        BOOST_OUTCOME_TRY(config_.restart, resolve_restarts(raw_));
        BOOST_OUTCOME_TRY(resolve_monitoring());
        BOOST_OUTCOME_TRY(resolve_devices());
        BOOST_OUTCOME_TRY(resolve_store());
        resolve_switches();
        if (!config_.store.only) {
            BOOST_OUTCOME_TRY(resolve_program());
        }
        add_remarks();
        return LaunchRequest{std::move(config_), std::move(notices_)};
    }

  private:
    const Setting& setting(OptionId id) const { return raw_[id]; }
    const std::string& text(OptionId id) const { return raw_[id].text; }

    void say(Notice::Level level, std::string words) { notices_.push_back({level, std::move(words)}); }

    Result<void> resolve_program() {
        BOOST_OUTCOME_TRY(CheckedProgram checked, check_program(raw_, config_.nproc_per_node, host_, files_));
        config_.program = std::move(checked.program);
        std::move(checked.notices.begin(), checked.notices.end(), std::back_inserter(notices_));
        return boost::outcome_v2::success();
    }

    /// An integer option of at least 0 that fits an int.
    Result<int> whole_number(OptionId id) const {
        const std::int64_t value = setting(id).integer;
        if (value < 0 || value > std::numeric_limits<int>::max()) return invalid_value(raw_, id);
        return static_cast<int>(value);
    }

    CpuCountRule cpu_rule() const {
        return text(OptionId::cpu_count) == "affinity" ? CpuCountRule::affinity : CpuCountRule::quota;
    }

    const DeviceFacts& devices() {
        if (!devices_)
            devices_ = probe_devices_ ? probe_devices_(needs_device_drivers(config_.nproc_text)) : DeviceFacts{};
        return *devices_;
    }

    Result<void> resolve_workers() {
        config_.nproc_text = text(OptionId::nproc_per_node);
        const auto number = parse_python_int(config_.nproc_text);
        if (number) {
            if (*number < 1 || *number > workers_max) return invalid_value(raw_, OptionId::nproc_per_node);
            config_.nproc_per_node = static_cast<int>(*number);
        } else {
            BOOST_OUTCOME_TRY(count_word());
        }
        return check_against_devices();
    }

    Result<void> count_word() {
        const std::string& word = config_.nproc_text;
        const bool needs_devices = word != "cpu";
        auto counted = count_workers(word, host_.cpu, needs_devices ? devices() : DeviceFacts{}, host_.environment,
                                     cpu_rule(), setting(OptionId::virtual_local_rank).on());
        if (!counted) return refuse_word(counted.error().message);
        config_.nproc_per_node = counted.value().count;
        config_.nproc_explanation = explain(counted.value());
        for (Notice& notice : counted.value().notices) notices_.push_back(std::move(notice));
        return boost::outcome_v2::success();
    }

    /// torchrun's INFO line for a word (contract 1.4), and what was counted.
    std::string explain(const WorkerCount& counted) const {
        return fmt::format("Using nproc_per_node={}, setting nproc_per_node to {} since the instance has {} {}; {}",
                           config_.nproc_text, counted.count, counted.count, counted.kind, counted.explanation);
    }

    /// `problem` says itself which words there are.
    Error refuse_word(const std::string& problem) const {
        OptionSpec spec = option(OptionId::nproc_per_node);
        spec.accepted = {};
        return wrong_value(spec, setting(spec.id).source, problem);
    }

    /// User case B28. One worker never exceeds the devices, so that the machine need not be looked at.
    Result<void> check_against_devices() {
        if (config_.nproc_per_node == 1) return boost::outcome_v2::success();
        const bool one_each = setting(OptionId::virtual_local_rank).on();
        auto remarks = check_worker_count(config_.nproc_per_node, devices(), host_.environment, one_each);
        if (!remarks.empty() && setting(OptionId::strict_devices).on())
            return invalid_value(raw_, OptionId::nproc_per_node, remarks.front().text);
        std::move(remarks.begin(), remarks.end(), std::back_inserter(notices_));
        return boost::outcome_v2::success();
    }

    /// Contract 2.6, user case B13. The command line's word comes first; a variable that cpprun alone reads comes after
    /// the one that everybody knows.
    Result<void> resolve_omp_threads() {
        const Setting& threads = setting(OptionId::omp_threads);
        const bool set_by_user = host_.environment.contains("OMP_NUM_THREADS");
        if (threads.given() && !(set_by_user && threads.source == Source::environment)) {
            BOOST_OUTCOME_TRY(const std::int64_t count, omp_thread_count(threads.text));
            config_.omp_num_threads = std::to_string(count);
        } else if (!set_by_user && config_.nproc_per_node > 1) {
            config_.omp_num_threads = "1";
            say(Notice::Level::warning,
                "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, as several workers "
                "share the processors; set the variable, or --omp-threads=N or auto, to choose and to silence this");
        }
        return boost::outcome_v2::success();
    }

    Result<std::int64_t> omp_thread_count(const std::string& words) const {
        if (words == "auto") return std::max(1, count_cpus(host_.cpu, cpu_rule()).count / config_.nproc_per_node);
        const std::int64_t count = parse_python_int(words).value_or(0);
        if (count < 1 || count > std::numeric_limits<int>::max()) return invalid_value(raw_, OptionId::omp_threads);
        return count;
    }

    Result<void> resolve_logs() {
        LogConfig& logs = config_.logs;
        BOOST_OUTCOME_TRY(logs.local_ranks_filter, local_ranks_filter());
        if (const std::string& name = text(OptionId::logs_specs); !name.empty() && name != "default")
            say(Notice::Level::warning,
                "--logs-specs=" + name + ": a log layout by a Python entry point; cpprun keeps its own, default");
        BOOST_OUTCOME_TRY(logs.redirects, streams(OptionId::redirects));
        BOOST_OUTCOME_TRY(logs.tee, streams(OptionId::tee));
        if (const std::string& prefix = text(OptionId::log_line_prefix_template); !prefix.empty())
            logs.line_prefix_template = prefix;
        if (setting(OptionId::duplicate_stdout_filters).given())
            logs.duplicate_stdout_filters = split_filters(text(OptionId::duplicate_stdout_filters));
        if (setting(OptionId::duplicate_stderr_filters).given())
            logs.duplicate_stderr_filters = split_filters(text(OptionId::duplicate_stderr_filters));
        logs.share_last_words = text(OptionId::share_last_words) == "on";
        const std::string& capture = text(OptionId::capture);
        logs.capture = capture == "off"    ? Capture::off
                       : capture == "file" ? Capture::file
                       : capture == "pty"  ? Capture::pty
                       : capture == "pipe" ? Capture::pipe
                                           : Capture::automatic;
        const std::string& color = text(OptionId::color);
        logs.color = color == "always" ? ColorWhen::always : color == "never" ? ColorWhen::never : ColorWhen::automatic;
        logs.progress_bars = text(OptionId::progress_bars) == "all" ? ProgressBars::all : ProgressBars::newest;
        BOOST_OUTCOME_TRY(resolve_log_prefix());
        BOOST_OUTCOME_TRY(logs.ranks_filter, ranks_filter());
        BOOST_OUTCOME_TRY(resolve_folding());
        return resolve_log_dir();
    }

    Result<void> resolve_log_prefix() {
        const Setting& prefix = setting(OptionId::log_prefix);
        const Setting& other = setting(OptionId::log_line_prefix_template);
        if (prefix.text.empty()) return boost::outcome_v2::success();
        const auto spelt_out = prefix_template_of(prefix.text);
        if (!spelt_out) return invalid_value(raw_, OptionId::log_prefix);
        if (prefix.source == Source::command_line && other.source == Source::command_line)
            return invalid_value(raw_, OptionId::log_prefix, "--log-line-prefix-template is given too");
        // What stands on the command line beats a variable.
        if (prefix.source == Source::environment && other.source == Source::command_line && !other.text.empty())
            return boost::outcome_v2::success();
        config_.logs.prefix_template = *spelt_out;
        return boost::outcome_v2::success();
    }

    Result<void> resolve_log_dir() {
        const std::string& folder = text(OptionId::log_dir);
        config_.logs.disabled = folder == "/dev/null";
        if (folder.empty() || config_.logs.disabled) return boost::outcome_v2::success();
        const FileStatus status = files_.look(folder);
        if (status.exists && !status.directory) return invalid_value(raw_, OptionId::log_dir, "it is a file");
        config_.logs.base_dir = folder;
        return boost::outcome_v2::success();
    }

    Result<std::vector<int>> local_ranks_filter() const {
        std::vector<int> ranks;
        if (text(OptionId::local_ranks_filter).empty()) return ranks;
        for (const std::string_view part : split_at_commas(text(OptionId::local_ranks_filter))) {
            const auto rank = parse_python_int(part);
            if (!rank) return invalid_value(raw_, OptionId::local_ranks_filter);
            ranks.push_back(static_cast<int>(std::clamp<std::int64_t>(*rank, -1, std::numeric_limits<int>::max())));
        }
        return ranks;
    }

    Result<std::vector<RankSpan>> ranks_filter() const {
        std::vector<RankSpan> ranges;
        if (text(OptionId::ranks_filter).empty()) return ranges;
        for (const std::string_view part : split_at_commas(text(OptionId::ranks_filter))) {
            const std::string_view word = strip_blanks(part);
            const std::size_t dash = word.find('-');
            const auto first = cpprun::whole_number<int>(word.substr(0, dash));
            const auto last = dash == std::string_view::npos ? first : cpprun::whole_number<int>(word.substr(dash + 1));
            if (!first || !last || *first < 0 || *last < *first) return invalid_value(raw_, OptionId::ranks_filter);
            ranges.push_back({*first, *last});
        }
        return ranges;
    }

    Result<void> resolve_folding() {
        const auto window = parse_duration(text(OptionId::fold_lines));
        if (!window || *window > std::chrono::minutes(1)) return invalid_value(raw_, OptionId::fold_lines);
        config_.logs.fold_window = *window;
        const bool teed = config_.logs.tee.for_all != Std::none || !config_.logs.tee.by_rank.empty();
        if (window->count() > 0 && !teed)
            say(Notice::Level::warning, "--fold-lines folds the lines of --tee, which is not given");
        return boost::outcome_v2::success();
    }

    Result<StdSpec> streams(OptionId id) const {
        auto spec = parse_std_spec(option(id).dashed, text(id));
        if (!spec) return invalid_value(raw_, id, "does not match: <^[0123]$> or <^(\\d+:[0123],)*(\\d+:[0123])$>");
        return spec;
    }

    Result<void> resolve_stopping() {
        BOOST_OUTCOME_TRY(const int timeout, shutdown_timeout());
        config_.stop.shutdown_timeout = std::chrono::seconds(timeout);
        const auto settle = parse_duration(text(OptionId::settle_time));
        if (!settle) return invalid_value(raw_, OptionId::settle_time);
        config_.stop.settle_time = *settle;
        config_.stop.exit_code =
            text(OptionId::exit_code) == "worker" ? ExitCodePolicy::worker : ExitCodePolicy::torchrun;
        const std::string& tier = text(OptionId::containment);
        if (tier == "cgroup") config_.stop.containment = ContainmentTier::cgroup;
        if (tier == "guard") config_.stop.containment = ContainmentTier::guard;
        if (tier == "group") config_.stop.containment = ContainmentTier::group;
        const std::string& when = text(OptionId::kill_descendants);
        config_.stop.kill_descendants = when == "always"  ? KillDescendants::always
                                        : when == "never" ? KillDescendants::never
                                                          : KillDescendants::by_exit_code;
        config_.stop.stop_signal_to = text(OptionId::stop_signal_to) == "rank" ? StopTarget::rank : StopTarget::group;
        config_.stop.no_forward = setting(OptionId::no_forward).on();
        resolve_signals();
        BOOST_OUTCOME_TRY(resolve_forwarded_signals());
        BOOST_OUTCOME_TRY(config_.stop.requeue_exit_code, number_between<int>(OptionId::requeue_exit_code, 1, 255));
        BOOST_OUTCOME_TRY(config_.stop.stdin_rank,
                          number_between<std::int64_t>(OptionId::stdin_rank, 0, std::numeric_limits<int>::max()));
        config_.logs.reading_rank = config_.stop.stdin_rank;
        BOOST_OUTCOME_TRY(resolve_hangs());
        return resolve_health();
    }

    Result<void> resolve_hangs() {
        HangConfig& hang = config_.hang;
        const auto after = parse_duration(text(OptionId::hang_after), std::chrono::hours(24 * 30));
        if (!after) return invalid_value(raw_, OptionId::hang_after);
        hang.after = *after;
        hang.fails = text(OptionId::hang_action) == "fail";
        const std::string& tool = text(OptionId::stack_tool);
        hang.tool = tool == "gdb" ? StackTool::gdb : tool == "py-spy" ? StackTool::py_spy : StackTool::none;
        const std::string& word = text(OptionId::stack_signal);
        if (word.empty()) return boost::outcome_v2::success();
        const auto number = any_signal(word);
        if (!number) return invalid_value(raw_, OptionId::stack_signal, python_repr(word) + " is no signal");
        if (*number == SIGKILL || *number == SIGSTOP)
            return invalid_value(raw_, OptionId::stack_signal, python_repr(word) + " cannot be caught");
        if (*number == SIGTERM || *number == SIGINT || *number == SIGQUIT || *number == SIGHUP)
            return invalid_value(raw_, OptionId::stack_signal, python_repr(word) + " is how a run is ended");
        if (*number == SIGCHLD || *number == SIGCONT || *number == SIGTSTP || *number == SIGPIPE)
            return invalid_value(raw_, OptionId::stack_signal, python_repr(word) + " has a meaning of its own");
        hang.stack_signal = *number;
        return boost::outcome_v2::success();
    }

    /// None: the option was not given.
    template <class Integer>
    Result<std::optional<Integer>> number_between(OptionId id, std::int64_t min, std::int64_t max) const {
        if (text(id).empty()) return std::optional<Integer>{};
        const auto value = parse_python_int(text(id));
        if (!value || *value < min || *value > max) return invalid_value(raw_, id);
        return std::optional(static_cast<Integer>(*value));
    }

    Result<void> resolve_forwarded_signals() {
        if (text(OptionId::forward_signals).empty()) return boost::outcome_v2::success();
        StopConfig& stop = config_.stop;
        for (const std::string_view part : split_at_commas(text(OptionId::forward_signals))) {
            const std::string_view word = strip_blanks(part);
            const auto number = any_signal(word);
            const auto refuse = [&](const std::string& why) {
                return invalid_value(raw_, OptionId::forward_signals, python_repr(word) + " " + why);
            };
            if (!number) return refuse("is no signal");
            if (*number == SIGKILL || *number == SIGSTOP) return refuse("cannot be caught");
            if (*number == SIGTERM || *number == SIGINT || *number == SIGQUIT) return refuse("is how a run is ended");
            if (*number == SIGCHLD || *number == SIGCONT || *number == SIGTSTP || *number == SIGPIPE)
                return refuse("has a meaning of its own to a launcher");
            const auto handled = std::find_if(stop.signals_to_handle.begin(), stop.signals_to_handle.end(),
                                              [&](const std::string& name) { return signal_number(name) == number; });
            if (handled != stop.signals_to_handle.end()) {
                if (setting(OptionId::signals_to_handle).given()) return refuse("is in --signals-to-handle too");
                stop.signals_to_handle.erase(handled);
            }
            stop.forward_signals.push_back(*number);
        }
        return boost::outcome_v2::success();
    }

    Result<void> resolve_health() {
        HealthConfig& health = config_.health;
        if (!text(OptionId::health_file).empty()) {
            const std::string& path = text(OptionId::health_file);
            if (files_.look(path).directory) return invalid_value(raw_, OptionId::health_file, "it is a directory");
            const std::size_t slash = path.rfind('/');
            const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
            if (!files_.look(folder).directory)
                return invalid_value(raw_, OptionId::health_file, "there is no directory " + python_repr(folder));
            health.file = path;
        }
        BOOST_OUTCOME_TRY(health.port, number_between<std::uint16_t>(OptionId::health_port, 1, 65535));
        std::string bind = text(OptionId::health_bind);
        if (!address_width(bind)) return invalid_value(raw_, OptionId::health_bind);
        if (bind.front() == '[') bind = bind.substr(1, bind.size() - 2);
        health.bind = std::move(bind);
        const std::string* variable = find_variable(host_.environment, "TORCHELASTIC_HEALTH_CHECK_PORT");
        if (health.port || variable == nullptr) return boost::outcome_v2::success();
        // What is no number is said when the workers are started, as in torchrun (contract 8.1).
        const auto port = parse_python_int(*variable);
        if (port && *port >= 1 && *port <= 65535) {
            health.port = static_cast<std::uint16_t>(*port);
        } else if (port) {
            say(Notice::Level::warning, "TORCHELASTIC_HEALTH_CHECK_PORT=" + *variable + " is no port; no health check");
        }
        return boost::outcome_v2::success();
    }

    /// A negative number in the variable means no time at all; torchrun checks the option only (contract 1.10).
    Result<int> shutdown_timeout() const {
        constexpr const char* name = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
        constexpr int default_seconds = 30;
        // Without a bound, as Python's integers: too large a number is as long as it takes.
        const auto in_bounds = [](std::int64_t seconds) {
            return static_cast<int>(std::clamp<std::int64_t>(seconds, 0, std::numeric_limits<int>::max()));
        };
        if (setting(OptionId::shutdown_timeout).given()) {
            const std::int64_t seconds = setting(OptionId::shutdown_timeout).integer;
            if (seconds < 0) return invalid_value(raw_, OptionId::shutdown_timeout);
            return in_bounds(seconds);
        }
        const std::string* variable = find_variable(host_.environment, name);
        if (variable == nullptr) return default_seconds;
        const auto seconds = parse_python_int(*variable);
        if (!seconds)
            return usage_error(std::string(name) + ": invalid int value: " + python_repr(*variable) +
                               " (accepted: a whole number of seconds)");
        return in_bounds(*seconds);
    }

    void resolve_signals() {
        config_.stop.signals_to_handle_text = text(OptionId::signals_to_handle);
        for (const std::string_view part : split_at_commas(config_.stop.signals_to_handle_text)) {
            const std::string name(strip_blanks(part));
            const auto number = signal_number(name);
            if (number && *number != SIGKILL && *number != SIGSTOP) {
                config_.stop.signals_to_handle.push_back(name);
            } else {
                say(Notice::Level::warning, "Failed to register signal handler for " + name);
            }
        }
    }

    Result<void> resolve_monitoring() {
        config_.role = text(OptionId::role);
        config_.monitor_interval = setting(OptionId::monitor_interval).real;
        if (!std::isfinite(config_.monitor_interval) || config_.monitor_interval <= 0)
            return invalid_value(raw_, OptionId::monitor_interval);
        config_.event_log_handler = text(OptionId::event_log_handler);
        config_.events_file = text(OptionId::events);
        constexpr std::array<std::string_view, 3> known{"null", "console", "dynamic_rendezvous"};
        if (std::find(known.begin(), known.end(), config_.event_log_handler) == known.end())
            say(Notice::Level::warning, "--event-log-handler=" + config_.event_log_handler +
                                            ": a handler by a Python entry point; cpprun drops the events, as null");
        return boost::outcome_v2::success();
    }

    Result<void> resolve_devices() {
        config_.virtual_local_rank = setting(OptionId::virtual_local_rank).on();
        if (config_.virtual_local_rank) {
            BOOST_OUTCOME_TRY(virtual_device_list(host_.environment, config_.nproc_per_node));
        }
        const std::string& binding = text(OptionId::numa_binding);
        config_.numa_binding = binding == "node"           ? NumaBinding::node
                               : binding == "socket"       ? NumaBinding::socket
                               : binding == "exclusive"    ? NumaBinding::exclusive
                               : binding == "core-complex" ? NumaBinding::core_complex
                                                           : NumaBinding::none;
        return boost::outcome_v2::success();
    }

    Result<void> resolve_worker_ports() {
        const std::string& range = text(OptionId::master_port_range);
        if (range.empty()) return boost::outcome_v2::success();
        const std::size_t colon = range.find(':');
        const auto first = cpprun::whole_number<std::uint16_t>(range.substr(0, colon));
        const auto last =
            colon == std::string::npos ? first : cpprun::whole_number<std::uint16_t>(range.substr(colon + 1));
        if (!first || !last || *first == 0 || *first > *last) return invalid_value(raw_, OptionId::master_port_range);
        const bool fixed = config_.rendezvous.kind == RendezvousKind::static_ranks;
        if (fixed && setting(OptionId::master_port_range).source == Source::command_line)
            return invalid_value(raw_, OptionId::master_port_range,
                                 "with the static rendezvous the port is the one that all nodes are told; leave one of "
                                 "the two out, or use --rdzv-backend=c10d");
        config_.store.worker_ports = PortRange(*first, *last);
        return boost::outcome_v2::success();
    }

    Result<void> resolve_store() {
        StoreConfig& store = config_.store;
        store.only = setting(OptionId::store_only).on();
        store.legacy = setting(OptionId::store_legacy).on();
        if (!text(OptionId::store_bind).empty()) {
            if (!address_width(text(OptionId::store_bind))) return invalid_value(raw_, OptionId::store_bind);
            store.bind = text(OptionId::store_bind);
        }
        BOOST_OUTCOME_TRY(resolve_worker_ports());
        if (!text(OptionId::store_allow).empty()) {
            for (const std::string_view part : split_at_commas(text(OptionId::store_allow))) {
                const std::string& network = store.allow.emplace_back(strip_blanks(part));
                if (!is_network(network))
                    return invalid_value(raw_, OptionId::store_allow, python_repr(network) + " is no network");
            }
        }
        // torchrun's variable speaks of c10d only; with static the agent's store is always shared (contract 3.2).
        const bool not_shared = variable_is_one(host_.environment, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE") &&
                                config_.rendezvous.kind == RendezvousKind::c10d;
        const bool rank0 =
            setting(OptionId::worker_store).given() ? text(OptionId::worker_store) == "rank0" : not_shared;
        config_.worker_store = rank0 ? WorkerStore::rank0 : WorkerStore::agent;
        return boost::outcome_v2::success();
    }

    void resolve_switches() {
        config_.file_timer = variable_is_one(host_.environment, "TORCHELASTIC_ENABLE_FILE_TIMER");
        config_.worker_identical = variable_is_one(host_.environment, "TORCH_ELASTIC_WORKER_IDENTICAL");
        const std::string* stuck = find_variable(host_.environment, "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT");
        const double seconds = stuck == nullptr ? 0 : parse_python_float(*stuck).value_or(0);
        if (std::isfinite(seconds) && seconds > 0)
            config_.uninterruptible_timeout = std::chrono::duration<double>(seconds);
    }

    void add_remarks() {
        if (config_.program.kind == ProgramKind::run_path && setting(OptionId::start_method).given() &&
            config_.program.start_method != "spawn")
            say(Notice::Level::info, "--start-method=" + config_.program.start_method +
                                         " changes nothing: each worker is a fresh interpreter");
        const bool elastic = config_.rendezvous.kind == RendezvousKind::c10d && config_.rendezvous.max_nodes > 1;
        if (setting(OptionId::max_membership_changes).source == Source::command_line && !elastic)
            say(Notice::Level::warning, "--max-membership-changes has no effect: the nodes of this job do not change");
        // User case B22. One of them says it for all.
        const auto tasks = tasks_on_this_node(host_.environment);
        const bool silenced = setting(OptionId::no_task_warning).on();
        if (!silenced && tasks && tasks->count > 1 && tasks->own_number == 0 && config_.nproc_per_node > 1)
            say(Notice::Level::warning,
                fmt::format(
                    "the batch system starts {} launchers on this node ({}), and each of them starts {} workers; "
                    "use one task per node, as with srun --ntasks-per-node=1 (--no-task-warning if this is meant)",
                    tasks->count, tasks->variable, config_.nproc_per_node));
        const std::string* outer = find_variable(host_.environment, "TORCHELASTIC_RUN_ID");
        const std::vector<std::string> deciding = variables_that_decide(raw_);
        if (outer == nullptr || deciding.empty()) return;
        std::string words = "this launch runs inside a worker of the launch " + python_repr(*outer) +
                            ", and variables inherited from there decide about it:";
        for (const std::string& variable : deciding) words += " " + variable;
        say(Notice::Level::warning, std::move(words));
    }

    const RawArgs& raw_;
    const HostFacts& host_;
    const FileLookup& files_;
    const ProbeDevices& probe_devices_;
    std::optional<DeviceFacts> devices_;
    LaunchConfig config_;
    std::vector<Notice> notices_;
};

}  // namespace

Result<std::string> parse_log_level(const Environment& environment) {
    constexpr std::array<std::string_view, 8> levels{"CRITICAL", "FATAL", "ERROR", "WARNING",
                                                     "WARN",     "INFO",  "DEBUG", "NOTSET"};
    const std::string* level = find_variable(environment, "LOGLEVEL");
    if (level == nullptr) return std::string("WARNING");
    if (std::find(levels.begin(), levels.end(), *level) != levels.end()) return *level;
    return usage_error("LOGLEVEL: Unknown level: " + python_repr(*level) +
                       " (accepted: CRITICAL, FATAL, ERROR, WARNING, WARN, INFO, DEBUG or NOTSET)");
}

Result<LaunchRequest> resolve_config(const RawArgs& raw, const HostFacts& host, const FileLookup& files,
                                     const ProbeDevices& probe_devices) {
    BOOST_OUTCOME_TRY(std::string log_level, parse_log_level(host.environment));
    BOOST_OUTCOME_TRY(LaunchRequest request, Resolver(raw, host, files, probe_devices).run());
    request.config.log_level = std::move(log_level);
    return request;
}

}  // namespace cpprun
