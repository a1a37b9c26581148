// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/agent/agent_driver.hpp"

#include "core/agent/signal_names.hpp"
#include "core/agent/worker_command.hpp"
#include "core/logs/prefix_template.hpp"
#include "core/option_names.hpp"
#include "core/report/error_file.hpp"
#include "core/report/failure_report.hpp"
#include "core/report/info_blocks.hpp"
#include "core/report/known_errors.hpp"
#include "core/report/last_words.hpp"
#include "core/text/terminal_safe.hpp"
#include "runtime/diagnostics.hpp"
#include "runtime/logs/captured_file.hpp"
#include "runtime/os/bounded_file.hpp"
#include "runtime/os/disk_lookup.hpp"
#include "runtime/process/ancestry.hpp"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cpprun {
namespace {

constexpr std::chrono::seconds drain_time_after_signal{2};
constexpr std::chrono::milliseconds look_for_trees_every{10};
// Nobody wants to hear of a stop that goes well.
constexpr std::chrono::milliseconds first_word_of_stopping{3000};
constexpr std::size_t waited_for_named_max = 8;
// How long the other nodes' evidence is waited for: they look at their workers meanwhile, perhaps with a debugger.
constexpr std::chrono::seconds places_awaited{12};
constexpr std::chrono::milliseconds words_looked_for_every{250};
constexpr std::chrono::seconds words_told_every{1};
constexpr std::chrono::seconds prompts_looked_for_every{2};
constexpr std::size_t words_of_rank = 4096;
constexpr std::size_t words_of_node = std::size_t{64} << 10U;
constexpr std::size_t words_lines_of_rank = 8;
constexpr std::size_t words_lines_max = 40;

AgentSettings settings_of(const LaunchConfig& config) {
    AgentSettings settings;
    settings.nproc = config.nproc_per_node;
    settings.max_restarts = config.max_restarts;
    settings.restart = config.restart;
    settings.role = config.role;
    settings.binary_description = binary_description(config.program);
    settings.settle_time = config.stop.settle_time;
    settings.shutdown_timeout = config.stop.shutdown_timeout;
    settings.kill_descendants = config.stop.kill_descendants;
    settings.sender_tells_workers = config.stop.no_forward;
    settings.hang_fails = config.hang.fails;
    // A container's first process cannot be stopped from within.
    settings.stays_awake = config.rendezvous.max_nodes > 1 || ::getpid() == 1;
    return settings;
}

/// The captured streams of all workers together may hold this much that the console has not taken.
constexpr std::uint64_t captured_bytes_of_node = std::uint64_t{512} << 20U;

TailOptions tail_options(const LaunchConfig& config) {
    const int nproc = config.nproc_per_node;
    TailOptions options;
    options.stdout_color = shows_color(options.stdout_fd, config.logs.color);
    options.stderr_color = shows_color(options.stderr_fd, config.logs.color);
    options.stdout_in_place = can_write_over(options.stdout_fd);
    options.stderr_in_place = can_write_over(options.stderr_fd);
    options.progress_bars = config.logs.progress_bars;
    options.fold_window = config.logs.fold_window;
    options.captured_bytes_max = std::clamp(captured_bytes_of_node / static_cast<std::uint64_t>(nproc),
                                            std::uint64_t{1} << 20U, options.captured_bytes_max);
    options.on_error = [](const std::string& text) { log(LogLevel::error, text, true); };
    return options;
}

LogLevel as_log_level(Say::Level level) {
    switch (level) {
        case Say::Level::info:
            return LogLevel::info;
        case Say::Level::warning:
            return LogLevel::warning;
        case Say::Level::error:
            return LogLevel::error;
    }
    return LogLevel::error;
}

StackCollectorOptions stack_options(const HangConfig& hang, const Environment& environment) {
    StackCollectorOptions options{hang.stack_signal, hang.tool};
    if (hang.tool == StackTool::none) return options;
    const auto path = environment.find("PATH");
    options.tool_path = find_on_path(hang.tool == StackTool::gdb ? "gdb" : "py-spy",
                                     path == environment.end() ? "/usr/bin:/bin" : path->second, DiskLookup{})
                            .value_or("");
    return options;
}

std::chrono::milliseconds steady_now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

std::string stderr_end(const WorkerStream& stream) {
    if (stream.captured) return last_bytes(stream.captured->get());
    return stream.path.empty() ? std::string() : last_bytes(stream.path);
}

/// How much stands in a stream of a worker's, or has; any other number means that it has written.
std::uint64_t written_to(const WorkerStream& stream) {
    struct stat facts {};
    const bool known = stream.captured       ? ::fstat(stream.captured->get(), &facts) == 0
                       : stream.path.empty() ? false
                                             : ::stat(stream.path.c_str(), &facts) == 0;
    return known ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

ChronicleRun chronicle_run(const LaunchConfig& config, const HostFacts& host, const RunLogs& logs) {
    ChronicleRun run;
    run.run_id = config.rendezvous.run_id;
    run.host = host.host_name;
    run.agent_pid = host.pid;
    run.role = config.role;
    run.backend = name_of(config.rendezvous.kind);
    run.nproc = config.nproc_per_node;
    run.nodes_min = config.rendezvous.min_nodes;
    run.nodes_max = config.rendezvous.max_nodes;
    run.max_restarts = config.max_restarts;
    run.command = {config.program.script};
    run.command.insert(run.command.end(), config.program.args.begin(), config.program.args.end());
    run.log_directory = logs.directory();
    return run;
}

// The words of torchrun, which has a hook for a health check and nothing behind it (contract 8.1).
void say_health_check(const Environment& environment) {
    const auto port = environment.find("TORCHELASTIC_HEALTH_CHECK_PORT");
    if (port == environment.end()) {
        log(LogLevel::info,
            "Environment variable 'TORCHELASTIC_HEALTH_CHECK_PORT' not found. Do not start health check.");
    } else if (port->second.empty() || port->second.find_first_not_of("0123456789") != std::string::npos) {
        log(LogLevel::info, "Invalid healthcheck port value: '" + port->second +
                                "', expecting integer. Not starting healthcheck server.");
    }
}

}  // namespace

AgentDriver::AgentDriver(boost::asio::io_context& io, AgentParts parts)
    : io_(io),
      parts_(std::move(parts)),
      handled_signals_(handled_signals(parts_.config.stop)),
      forwarded_signals_(parts_.config.stop.forward_signals.begin(), parts_.config.stop.forward_signals.end()),
      machine_(settings_of(parts_.config)),
      signals_(io, parts_.signals, [this](const ReceivedSignal& signal) { on_signal(signal); }),
      workers_(io, parts_.containment,
               [this](int rank, ExitStatus status) {
                   worker_timers_.forget(workers_.pid(rank));
                   hang_watch_.ended(rank);
                   statuses_.at(static_cast<std::size_t>(rank)) = status;
                   // What the worker said comes before what is said about its end.
                   if (!status.success()) tail_.catch_up(rank);
                   if (lease_ && std::chrono::steady_clock::now() > *lease_)
                       post(Fenced{"This agent stood still for so long that the other nodes may have gone on"});
                   WorkerExited event = exit_event(rank, status);
                   if (!status.success() && machine_.phase() == "running") say_what_failed(event);
                   post(std::move(event));
               }),
      tail_(io.get_executor(), tail_options(parts_.config)),
      worker_timers_(io, parts_.config.file_timer, parts_.host.environment, [this] { return pids_; }),
      starter_(parts_.config, parts_.host.environment, parts_.virtual_devices),
      event_log_(parts_.config, parts_.host),
      chronicle_(chronicle_run(parts_.config, parts_.host, parts_.logs)),
      collector_(io, stack_options(parts_.config.hang, parts_.host.environment)),
      hang_watch_(parts_.config.hang.after),
      silence_timer_(io),
      places_timer_(io),
      words_timer_(io),
      prompts_timer_(io),
      state_timer_(io),
      trees_timer_(io),
      grace_words_timer_(io) {
    for (const AgentTimer timer : {AgentTimer::settle, AgentTimer::grace, AgentTimer::abandon, AgentTimer::backoff})
        timers_.emplace(timer, boost::asio::steady_timer(io));
    set_before_record([this] { tail_.end_line(); });
    if (parts_.config.hang.after.count() > 0)
        heartbeats_ = std::make_unique<Heartbeats>(
            io, parts_.host.environment, [this](int rank) { hang_watch_.heard_heartbeat(rank, steady_now()); });
    parts_.meeting.attach([this](AgentEvent event) { post(std::move(event)); });
    parts_.meeting.hear_notes([this](const PeerNote& note) { hear_note(note); });
    parts_.meeting.keep_lease([this](std::chrono::steady_clock::time_point until) {
        lease_ = until;
        parts_.containment.lease_until(until);
    });
}

AgentDriver::~AgentDriver() {
    set_before_record({});
}

RunResult AgentDriver::run() {
    log(LogLevel::info, fmt::format("[{}] starting workers for entrypoint: {}", parts_.config.role,
                                    entrypoint_name(parts_.config.program)));
    boost::asio::post(io_, [this] {
        pumping_ = true;
        chronicle_.began(moment());
        obey(machine_.start());
        pumping_ = false;
        pump();
    });
    watch_uninterruptible();
    start_health();
    io_.run();
    return result_.value_or(RunResult{});
}

void AgentDriver::post(AgentEvent event) {
    events_.push_back(std::move(event));
    pump();
}

void AgentDriver::pump() {
    if (pumping_) return;
    pumping_ = true;
    while (!events_.empty()) {
        const AgentEvent event = std::move(events_.front());
        events_.pop_front();
        if (!result_) chronicle_.heard(event, moment());
        obey(machine_.handle(event));
    }
    pumping_ = false;
    if (phase_ != machine_.phase()) phase_began_ = std::chrono::steady_clock::now();
    phase_ = machine_.phase();
}

void AgentDriver::start_health() {
    const HealthConfig& config = parts_.config.health;
    phase_ = machine_.phase();
    phase_began_ = std::chrono::steady_clock::now();
    if (config.file) health_file_.emplace(io_, *config.file, [this] { return health_json(health()); });
    if (!config.port) return;
    auto server = HealthServer::start(io_, config.bind, *config.port, [this] { return health_answer(health()); });
    if (!server) {
        log(LogLevel::warning, "no health check: " + server.error().message);
        return;
    }
    health_server_ = std::move(server.value());
}

HealthRecord AgentDriver::health() const {
    const auto in_phase = std::chrono::steady_clock::now() - phase_began_;
    return {.phase = phase_,
            .in_phase = std::chrono::duration_cast<std::chrono::milliseconds>(in_phase),
            .round = place_.round,
            .world_size = place_.ranks.world_size,
            .local_world_size = parts_.config.nproc_per_node,
            .restart_count = place_.restart_count,
            .pid = parts_.host.pid,
            .time = std::time(nullptr)};
}

void AgentDriver::obey(const std::vector<AgentCommand>& commands) {
    for (const AgentCommand& command : commands) {
        chronicle_.decided(command, moment());
        tell_chronicle();
        std::visit([this](const auto& c) { execute(c); }, command);
    }
    tell_chronicle();
}

void AgentDriver::tell_chronicle() {
    for (const std::string& remark : chronicle_.take_remarks()) log(LogLevel::info, remark);
    const std::vector<std::string> records = chronicle_.take_records();
    if (parts_.events != nullptr) parts_.events->append(records);
}

EventMoment AgentDriver::moment() const {
    using std::chrono::microseconds;
    return {std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch()),
            std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - began_)};
}

void AgentDriver::on_signal(const ReceivedSignal& signal) {
    const bool handled = handled_signals_.contains(signal.signo);
    if (signal.signo == SIGCHLD && !handled) {
        workers_.tend();
        return;
    }
    const bool resized = signal.signo == SIGWINCH && parts_.config.logs.capture == Capture::pty;
    // The workers' terminals are nobody's controlling terminal, so that the kernel tells nobody.
    if (resized) tail_.resize(launchers_terminal_size());
    if (forwarded_signals_.contains(signal.signo)) {
        post(SignalToForward{signal.signo, signal.sender});
        return;
    }
    if (resized && !handled) {
        workers_.signal_all(SIGWINCH);
        return;
    }
    if (!handled && (signal.signo == SIGTSTP || signal.signo == SIGCONT)) {
        if (signal.signo == SIGTSTP) {
            post(SuspensionAsked{});
        } else {
            post(Continued{});
        }
        return;
    }
    if (result_) {
        // Only the console's last lines are outstanding; whoever signals now does not want to wait for them.
        tail_.stop();
        io_.stop();
        return;
    }
    if (signal.signo == SIGUSR2 && !handled) {
        post(EvidenceAsked{"SIGUSR2" + (signal.sender.empty() ? "" : " (sent by " + signal.sender + ")")});
        return;
    }
    const bool key = signal.from_terminal && (signal.signo == SIGINT || signal.signo == SIGQUIT);
    post(SignalReceived{signal.signo, handled, signal.sender, key});
}

void AgentDriver::execute(const JoinRound& command) {
    joining_since_ = std::chrono::steady_clock::now();
    log(LogLevel::info, fmt::format("[{}] Rendezvous'ing worker group", parts_.config.role));
    parts_.meeting.join(command);
}

void AgentDriver::execute(const EnterExitBarrier& /*command*/) {
    parts_.meeting.enter_exit_barrier();
}

void AgentDriver::execute(const StartGroup& command) {
    place_ = command.place;
    pids_.clear();
    group_started_ = std::chrono::steady_clock::now();
    statuses_.assign(static_cast<std::size_t>(parts_.config.nproc_per_node), std::nullopt);
    const auto start_all = [&]() -> Result<void> {
        BOOST_OUTCOME_TRY(begin_attempt());
        for (int rank = 0; rank < parts_.config.nproc_per_node; ++rank) {
            BOOST_OUTCOME_TRY(start_worker(rank));
        }
        return boost::outcome_v2::success();
    };
    Result<void> started = start_all();
    const Result<void> watched = workers_.watch();
    for (int rank = 0; rank < workers_.count(); ++rank) pids_.push_back(workers_.pid(rank));
    if (started && !watched) started = watched;
    attempt_logs_.worker_directories.reset();
    attempt_logs_.filtered_stdout = {};
    attempt_logs_.filtered_stderr = {};
    if (started) {
        event_log_.workers_started(pids_);
        hang_watch_.begin(parts_.config.nproc_per_node, steady_now());
        output_seen_.assign(2 * static_cast<std::size_t>(parts_.config.nproc_per_node), 0);
        watch_for_silence();
        words_seen_.assign(attempt_logs_.workers.size(), 0);
        share_last_words();
        watch_for_hidden_prompts();
        events_.emplace_back(GroupStarted{pids_});
    } else {
        events_.emplace_back(GroupStartFailed{pids_, started.error()});
    }
}

Result<void> AgentDriver::begin_attempt() {
    const LaunchConfig& config = parts_.config;
    event_log_.ranks_assigned(place_.ranks, place_.restart_count, std::chrono::steady_clock::now() - joining_since_);
    log(LogLevel::info, rendezvous_block(config, place_.restart_count, place_.master, place_.ranks));
    log(LogLevel::info, fmt::format("[{}] Starting worker group", config.role));
    log(LogLevel::info, fmt::format("use_agent_store: {}", place_.master.agent_store ? "True" : "False"));
    BOOST_OUTCOME_TRY(worker_timers_.begin_attempt());
    if (heartbeats_) {
        BOOST_OUTCOME_TRY(heartbeats_->begin_attempt(config.nproc_per_node));
    }
    say_health_check(parts_.host.environment);
    BOOST_OUTCOME_TRY(attempt_logs_, parts_.logs.begin_attempt(place_.restart_count, static_cast<int>(place_.round),
                                                               config.nproc_per_node, place_.ranks.global_base));
    chronicle_.logs_are_in(attempt_logs_.directory);
    evidence_.begin_attempt();
    starter_.begin_attempt(place_of(0));
    return follow(tail_, attempt_logs_, [this](int rank, Std stream) { return line_prefix(rank, stream); });
}

LinePrefix AgentDriver::line_prefix(int local_rank, Std stream) const {
    PrefixValues values;
    values.role_name = parts_.config.role;
    values.local_rank = local_rank;
    values.rank = place_.ranks.global_base + local_rank;
    values.hostname = parts_.host.host_name;
    const LogConfig& config = parts_.config.logs;
    const std::string torchruns = choose_prefix_template(config.line_prefix_template, parts_.host.environment);
    LinePrefix prefix = config.prefix_template
                            ? LinePrefix::made(*config.prefix_template, values, stream, place_.restart_count)
                            : LinePrefix(cpprun::line_prefix(torchruns, values));
    prefix.belongs_to(values.rank);
    return prefix;
}

WorkerPlace AgentDriver::place_of(int local_rank) const {
    WorkerPlace place;
    place.local_rank = local_rank;
    place.ranks = place_.ranks;
    place.restart_count = place_.restart_count;
    place.master = place_.master;
    place.round = place_.round;
    place.error_file = attempt_logs_.workers.at(static_cast<std::size_t>(local_rank)).error_file;
    place.timer_file = worker_timers_.path();
    if (heartbeats_) place.heartbeat_socket = heartbeats_->path(local_rank);
    return place;
}

Result<void> AgentDriver::start_worker(int local_rank) {
    WorkerLogs& logs = attempt_logs_.workers.at(static_cast<std::size_t>(local_rank));
    BOOST_OUTCOME_TRY(attempt_logs_.wait_for_directory(local_rank));
    SpawnSpec spec = starter_.prepare(place_of(local_rank));
    spec.descriptor_limit = parts_.worker_descriptor_limit;
    spec.hangup_stays_ignored = parts_.signals.hangup_ignored;
    if (!parts_.cpus_by_rank.empty()) spec.cpus = parts_.cpus_by_rank.at(static_cast<std::size_t>(local_rank));
    UniqueFd null;
    const auto dev_null = [&null] {
        if (!null) null.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
        return null.get();
    };
    const auto descriptor = [&](const WorkerStream& stream, int inherited) {
        if (stream.target == WorkerStream::Target::inherit) return inherited;
        if (stream.target == WorkerStream::Target::file) return stream.file.get();
        return dev_null();
    };
    const auto& reader = parts_.config.stop.stdin_rank;
    if (reader && *reader != place_.ranks.global_base + local_rank) spec.stdin_fd = dev_null();
    spec.stdout_fd = descriptor(logs.out, 1);
    spec.stderr_fd = descriptor(logs.err, 2);
    BOOST_OUTCOME_TRY(workers_.start(spec));
    logs.out.file.reset();
    logs.err.file.reset();
    logs.err.terminal.reset();
    return boost::outcome_v2::success();
}

WorkerExited AgentDriver::exit_event(int local_rank, ExitStatus status) const {
    const auto now = std::chrono::steady_clock::now();
    WorkerExited event{
        local_rank, status, {}, std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch())};
    if (status.success()) return event;
    WorkerFailure& failure = event.failure;
    failure.global_rank = place_.ranks.global_base + local_rank;
    failure.timestamp = std::time(nullptr);
    failure.age = std::chrono::duration_cast<std::chrono::milliseconds>(now - group_started_);
    failure.evidence = evidence_of(local_rank, status);
    const std::string& path = attempt_logs_.workers.at(static_cast<std::size_t>(local_rank)).error_file;
    if (path.empty()) return event;
    const auto read = [&]() -> Result<std::optional<ErrorRecord>> {
        BOOST_OUTCOME_TRY(const auto content, read_untrusted_file(path, error_file_bytes_max));
        if (!content) return std::optional<ErrorRecord>{};
        BOOST_OUTCOME_TRY(auto record, parse_error_file(*content));
        return std::optional(std::move(record));
    };
    Result<std::optional<ErrorRecord>> record = read();
    if (!record) {
        log(LogLevel::error, "Failed to parse reply file: " + path + ": " + record.error().message, true);
    } else if (record.value()) {
        failure.record = std::move(record.value());
        failure.error_file = path;
        failure.timestamp = failure.record->timestamp.value_or(failure.timestamp);
    }
    return event;
}

FailureEvidence AgentDriver::evidence_of(int local_rank, ExitStatus status) const {
    FailureEvidence evidence = evidence_.gather(workers_.pid(local_rank), status);
    const WorkerStream& stream = attempt_logs_.workers.at(static_cast<std::size_t>(local_rank)).err;
    evidence.stderr_log = stream.path;
    evidence.last_words_known = stream.captured || !stream.path.empty();
    evidence.last_words = stderr_end(stream);
    return evidence;
}

void AgentDriver::execute(const SignalWorkers& command) {
    const StopTarget target = command.signo == SIGKILL ? StopTarget::group : parts_.config.stop.stop_signal_to;
    for (const int rank : command.local_ranks) workers_.signal(rank, command.signo, target);
}

void AgentDriver::execute(const SignalTrees& command) {
    workers_.signal_trees(command.local_ranks, command.signo);
}

void AgentDriver::execute(const KillTree& command) {
    workers_.kill_tree(command.local_rank);
}

void AgentDriver::execute(const LeaveTree& command) {
    const std::vector<pid_t> tree = workers_.tree(command.local_rank);
    if (tree.empty()) return;
    log(LogLevel::info, fmt::format("[{}] local rank {} has ended and left processes behind, which may run on: {}",
                                    parts_.config.role, command.local_rank, describe_processes(tree)));
}

void AgentDriver::execute(const KillTrees& command) {
    trees_doomed_ = true;
    std::vector<pid_t> descendants;
    for (const std::vector<pid_t>& tree : workers_.trees())
        descendants.insert(descendants.end(), tree.begin(), tree.end());
    workers_.kill_trees();
    if (!descendants.empty())
        log(command.quiet ? LogLevel::info : LogLevel::warning,
            fmt::format("Unable to shutdown what workers had started via {}, forcefully exiting via {}: {}",
                        command.stop_signal, SIGKILL, describe_processes(descendants)),
            !command.quiet);
}

void AgentDriver::execute(const AwaitTrees& /*command*/) {
    look_for_trees();
}

// Only the guards and the kernel know at once when the last one of a tree has ended, and they tell nobody: a look now
// and then, and only while a group is being stopped.
void AgentDriver::look_for_trees() {
    if (trees_doomed_) workers_.kill_trees();
    if (workers_.left().empty()) {
        events_.emplace_back(TreesGone{});
        pump();
        return;
    }
    trees_timer_.expires_after(look_for_trees_every);
    trees_timer_.async_wait([this](boost::system::error_code error) {
        if (!error) look_for_trees();
    });
}

void AgentDriver::execute(const ReportStuck& /*command*/) {
    for (const pid_t pid : workers_.left()) {
        const ProcessState state = process_state(pid);
        std::string place;
        std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/wchan"), place);
        log(LogLevel::error,
            fmt::format("Process {} ({}) cannot be killed: it is in state {}{}", pid, state.command,
                        state.letter == '\0' ? '?' : state.letter,
                        place.empty() || place == "0" ? "" : " and waits in " + place + " of the kernel"),
            true);
    }
}

void AgentDriver::hear_note(const PeerNote& note) {
    if (result_ || note.own) return;
    const std::string_view phase = machine_.phase();
    if (note.kind == "look") {
        // Where nothing runs nobody needs to hear of it.
        if (phase == "running" || phase == "settling" || phase == "suspended")
            post(EvidenceAsked{fmt::format("asked for by {}: {}", note.host, terminal_safe(note.text)), false});
    } else if (note.kind == "evidence") {
        add_places(decode_places(note.text));
    } else if (note.kind == "places") {
        places_ = decode_places(note.text);
        conclude_places();
    } else if (note.kind == "words") {
        LastWordsFound found{note.host, decode_words(note.text)};
        std::string text = fmt::format("---- cpprun: last words of {}, which is lost", note.host);
        std::size_t lines = 0;
        for (const RankWords& one : found.words) {
            for (const std::string& line : read_last_words(one.text, words_lines_of_rank).lines)
                if (++lines <= words_lines_max) text += fmt::format("\n  | [rank {}] {}", one.rank, line);
        }
        if (lines > words_lines_max) text += fmt::format("\n  | {} more lines", lines - words_lines_max);
        if (lines > 0) print_to_stderr(text);
        post(std::move(found));
    }
}

/// All nodes hear of each node's first failure in one order, which no clock decides.
void AgentDriver::say_what_failed(const WorkerExited& event) {
    if (parts_.config.rendezvous.max_nodes < 2) return;
    WorkerFailure failure = event.failure;
    failure.status = event.status;
    const FailureReportInput input{parts_.config.program.script, parts_.host.host_name, {failure}};
    const ClassifiedFailure classified = tell_failures(input).all.front();
    JobFailure failed;
    failed.round = place_.round;
    failed.rank = failure.global_rank;
    failed.status = status_text(event.status);
    failed.said = classified.said;
    failed.consequence = classified.kind == FailureClass::consequence;
    parts_.meeting.tell({"failed", {}, encode_job_failure(failed)});
}

void AgentDriver::add_places(const std::vector<RanksAt>& places) {
    if (place_.ranks.group_world_size < 2) return;
    if (places_.empty()) {
        places_timer_.expires_after(parts_.config.hang.tool == StackTool::none ? places_awaited / 4 : places_awaited);
        places_timer_.async_wait([this](boost::system::error_code error) {
            if (!error) conclude_places();
        });
    }
    places_.insert(places_.end(), places.begin(), places.end());
    std::size_t known = 0;
    for (const RanksAt& place : places_) known += place.ranks.size();
    if (known >= static_cast<std::size_t>(place_.ranks.world_size)) conclude_places();
}

void AgentDriver::conclude_places() {
    places_timer_.cancel();
    const std::vector<RanksAt> merged = merge_places(std::exchange(places_, {}));
    std::size_t known = 0;
    for (const RanksAt& place : merged) known += place.ranks.size();
    // Led by a host that puts together what all have said, or alone in having something to say.
    if (result_ || known <= static_cast<std::size_t>(place_.ranks.local_world_size)) return;
    const std::vector<int> odd = odd_ranks(merged);
    const auto world = static_cast<std::size_t>(place_.ranks.world_size);
    print_to_stderr(fmt::format("all nodes : {}{}{}", places_text(merged),
                                odd.empty() ? ""
                                            : fmt::format("; rank{} {} stand{} out", odd.size() == 1 ? "" : "s",
                                                          rank_ranges(odd), odd.size() == 1 ? "s" : ""),
                                known < world ? fmt::format("; {} of {} ranks are known", known, world) : ""));
    if (parts_.meeting.speaks_for_others()) parts_.meeting.tell({"places", {}, encode_places(merged)});
    post(PlacesKnown{merged});
}

/// A debugger that asks where nobody sees it looks like a hang. Only where somebody could answer: nothing wakes the
/// agent in any other run.
void AgentDriver::watch_for_hidden_prompts() {
    const auto& reader = parts_.config.stop.stdin_rank;
    std::vector<int> hidden;
    for (const WorkerLogs& logs : attempt_logs_.workers) {
        const bool reads = !reader || *reader == place_.ranks.global_base + logs.local_rank;
        const bool seen = logs.out.shown || logs.out.target == WorkerStream::Target::inherit;
        if (reads && !seen && !prompts_told_.contains(logs.local_rank)) hidden.push_back(logs.local_rank);
    }
    if (hidden.empty() || ::isatty(STDIN_FILENO) == 0) return;
    prompts_timer_.expires_after(prompts_looked_for_every);
    prompts_timer_.async_wait([this, hidden](boost::system::error_code error) {
        if (error || result_) return;
        for (const int rank : hidden) {
            if (statuses_.at(static_cast<std::size_t>(rank)) || !reads_a_terminal(process_at_work(workers_.pid(rank))))
                continue;
            prompts_told_.insert(rank);
            const WorkerStream& out = attempt_logs_.workers.at(static_cast<std::size_t>(rank)).out;
            log(LogLevel::warning,
                fmt::format("local rank {} waits for input from the terminal, and what it asks is not shown: {}", rank,
                            out.path.empty() ? "a filter leaves its output out (--local-ranks-filter, --ranks-filter); "
                                               "--stdin=RANK shows it"
                                             : "its output goes to " + out.path));
        }
        watch_for_hidden_prompts();
    });
}

/// Nothing is sent while nothing is written.
void AgentDriver::share_last_words() {
    const auto nproc = static_cast<std::size_t>(parts_.config.nproc_per_node);
    if (!parts_.config.logs.share_last_words || parts_.config.rendezvous.max_nodes < 2) return;
    words_timer_.expires_after(words_looked_for_every);
    words_timer_.async_wait([this, nproc](boost::system::error_code error) {
        if (error || result_) return;
        const auto now = std::chrono::steady_clock::now();
        if (now - words_told_ >= words_told_every && words_seen_.size() == attempt_logs_.workers.size()) {
            bool changed = false;
            for (std::size_t rank = 0; rank < words_seen_.size(); ++rank) {
                const std::uint64_t written = written_to(attempt_logs_.workers[rank].err);
                changed = std::exchange(words_seen_[rank], written) != written || changed;
            }
            if (changed) {
                std::vector<RankWords> words;
                for (const WorkerLogs& logs : attempt_logs_.workers) {
                    RankWords one{place_.ranks.global_base + logs.local_rank, stderr_end(logs.err)};
                    if (!one.text.empty()) words.push_back(std::move(one));
                }
                words_told_ = now;
                parts_.meeting.leave_words(encode_words(words, std::min(words_of_rank, words_of_node / nproc)));
            }
        }
        share_last_words();
    });
}

void AgentDriver::execute(const CollectEvidence& command) {
    if (command.also_of_peers) parts_.meeting.tell({"look", {}, command.reason});
    std::vector<StackSubject> subjects;
    for (int rank = 0; rank < workers_.count(); ++rank) {
        if (statuses_.at(static_cast<std::size_t>(rank))) continue;
        const WorkerStream& stream = attempt_logs_.workers.at(static_cast<std::size_t>(rank)).err;
        subjects.push_back(
            {place_.ranks.global_base + rank, rank, process_at_work(workers_.pid(rank)), stream.captured, stream.path});
    }
    collector_.collect(subjects, [this, reason = command.reason](std::vector<WorkerSnapshot> snapshots) {
        HangEvidence evidence{reason, std::move(snapshots)};
        print_to_stderr(evidence_text(evidence));
        const std::vector<RanksAt> places = places_of(group_snapshots(evidence.workers));
        parts_.meeting.tell({"evidence", {}, encode_places(places)});
        add_places(places);
        post(EvidenceCollected{std::move(evidence)});
    });
}

// There is no notice of what a worker writes to a file of its own: a look now and then, and only with --hang-after.
void AgentDriver::watch_for_silence() {
    if (!heartbeats_) return;
    const auto every = std::clamp<std::chrono::milliseconds>(parts_.config.hang.after / 8,
                                                             std::chrono::milliseconds(20), std::chrono::seconds(1));
    silence_timer_.expires_after(every);
    silence_timer_.async_wait([this](boost::system::error_code error) {
        if (error || result_) return;
        const auto now = steady_now();
        if (machine_.phase() == "suspended") hang_watch_.forgive(now);
        note_output(now);
        const std::vector<int> silent = hang_watch_.look(now);
        if (!silent.empty() && machine_.phase() == "running")
            post(WorkersSilent{silent, parts_.config.hang.after, std::time(nullptr)});
        watch_for_silence();
    });
}

void AgentDriver::note_output(std::chrono::milliseconds now) {
    for (const WorkerLogs& logs : attempt_logs_.workers) {
        const auto at = 2 * static_cast<std::size_t>(logs.local_rank);
        if (at + 1 >= output_seen_.size()) return;
        const std::uint64_t written[] = {written_to(logs.out), written_to(logs.err)};
        for (std::size_t i = 0; i < 2; ++i)
            if (std::exchange(output_seen_[at + i], written[i]) != written[i])
                hang_watch_.heard_output(logs.local_rank, now);
    }
}

void AgentDriver::execute(const SuspendGroup& command) {
    workers_.signal_all(SIGSTOP);
    if (!command.agent_too) return;
    ::raise(SIGSTOP);
    events_.emplace_back(Continued{});
}

void AgentDriver::execute(const ContinueGroup& /*command*/) {
    workers_.signal_all(SIGCONT);
}

void AgentDriver::execute(const ReleaseGroup& command) {
    trees_timer_.cancel();
    trees_doomed_ = false;
    workers_.release(command.kill_leftovers);
    worker_timers_.end_attempt();
    silence_timer_.cancel();
    words_timer_.cancel();
    prompts_timer_.cancel();
    if (heartbeats_) heartbeats_->end_attempt();
    uninterruptible_since_.clear();
    if (!result_) tail_.drain([] {});
}

void AgentDriver::execute(const ArmTimer& command) {
    auto& timer = timers_.at(command.timer);
    timer.expires_after(command.after);
    timer.async_wait([this, which = command.timer](boost::system::error_code error) {
        if (!error) post(TimerFired{which});
    });
    if (command.timer != AgentTimer::grace) return;
    grace_ends_ = std::chrono::steady_clock::now() + command.after;
    say_who_is_waited_for_after(std::max(first_word_of_stopping, waiting_pace()));
}

void AgentDriver::say_who_is_waited_for_after(std::chrono::milliseconds pause) {
    grace_words_timer_.expires_after(pause);
    grace_words_timer_.async_wait([this](boost::system::error_code error) {
        if (error || machine_.phase() != "stopping") return;
        const auto left = std::chrono::ceil<std::chrono::seconds>(grace_ends_ - std::chrono::steady_clock::now());
        log_waiting(fmt::format("waiting for {} to end; SIGKILL in {} s", waited_for(),
                                std::max<std::int64_t>(0, left.count())));
        say_who_is_waited_for_after(waiting_pace());
    });
}

std::string AgentDriver::waited_for() const {
    std::vector<std::string> names;
    std::size_t more = 0;
    const auto name = [&](std::string text) {
        if (names.size() < waited_for_named_max) {
            names.push_back(std::move(text));
        } else {
            ++more;
        }
    };
    const bool trees_too = parts_.config.stop.kill_descendants != KillDescendants::never;
    for (int rank = 0; rank < workers_.count(); ++rank)
        if (!statuses_.at(static_cast<std::size_t>(rank)))
            name(fmt::format("rank {} (pid {})", place_.ranks.global_base + rank, workers_.pid(rank)));
    if (trees_too) {
        const std::vector<std::vector<pid_t>> trees = workers_.trees();
        for (std::size_t rank = 0; rank < trees.size(); ++rank)
            for (const pid_t pid : trees[rank])
                name(fmt::format("{} of rank {}", describe_processes({pid}),
                                 place_.ranks.global_base + static_cast<std::int64_t>(rank)));
    }
    if (more > 0) names.push_back(fmt::format("{} more", more));
    return fmt::format("{}", fmt::join(names, ", "));
}

void AgentDriver::execute(const CancelTimer& command) {
    timers_.at(command.timer).cancel();
    if (command.timer == AgentTimer::grace && grace_words_timer_.cancel() > 0) end_waiting();
}

void AgentDriver::execute(const Say& command) {
    log(as_log_level(command.level), command.text, command.always);
}

void AgentDriver::execute(const Finish& command) {
    result_ = command.result;
    event_log_.run_ended(*result_, statuses_);
    tail_.drain([this] {
        console_drained_ = true;
        stop_when_all_is_said();
    });
    parts_.meeting.end(*result_, [this] {
        goodbye_said_ = true;
        stop_when_all_is_said();
    });
    if (result_->outcome != RunResult::Outcome::signaled) return;
    // Whoever stops a job does not wait for a console that nobody reads.
    state_timer_.expires_after(drain_time_after_signal);
    state_timer_.async_wait([this](boost::system::error_code error) {
        if (error) return;
        tail_.stop();
        io_.stop();
    });
}

void AgentDriver::stop_when_all_is_said() {
    if (console_drained_ && goodbye_said_) io_.stop();
}

void AgentDriver::watch_uninterruptible() {
    const auto allowed = parts_.config.uninterruptible_timeout;
    if (allowed.count() <= 0) return;
    const auto every =
        std::clamp<std::chrono::duration<double>>(allowed / 4, std::chrono::milliseconds(50), std::chrono::seconds(1));
    state_timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(every));
    state_timer_.async_wait([this, allowed](boost::system::error_code error) {
        if (error || result_) return;
        const auto now = std::chrono::steady_clock::now();
        for (int rank = 0; rank < workers_.count(); ++rank) {
            // A process that is suspended between vfork and exec leaves its parent in that state.
            if (machine_.phase() == "suspended" || workers_.state_letter(rank) != 'D') {
                uninterruptible_since_.erase(rank);
                continue;
            }
            const auto [since, first] = uninterruptible_since_.try_emplace(rank, now);
            if (first)
                log(LogLevel::warning,
                    fmt::format("[{}] Worker pid={} entered uninterruptible sleep (D-state); will mark UNHEALTHY if it "
                                "remains for {}s.",
                                parts_.config.role, workers_.pid(rank), allowed.count()));
            if (now - since->second >= allowed) events_.emplace_back(WorkerStuck{rank, now - since->second});
        }
        pump();
        watch_uninterruptible();
    });
}

}  // namespace cpprun
