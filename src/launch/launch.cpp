// SPDX-License-Identifier: BSD-3-Clause
#include "launch/launch.hpp"

#include "cli/config_json.hpp"
#include "core/agent/signal_names.hpp"
#include "core/devices/numa_binding.hpp"
#include "core/devices/virtual_rank.hpp"
#include "core/devices/visible_devices.hpp"
#include "core/report/info_blocks.hpp"
#include "core/report/run_index.hpp"
#include "launch/exit_code.hpp"
#include "launch/run_report.hpp"
#include "launch/store_service.hpp"
#include "runtime/agent/agent_driver.hpp"
#include "runtime/agent/local_meeting.hpp"
#include "runtime/devices/probe_devices.hpp"
#include "runtime/devices/probe_numa.hpp"
#include "runtime/diagnostics.hpp"
#include "runtime/logs/log_files.hpp"
#include "runtime/os/bounded_file.hpp"
#include "runtime/os/descriptor_limit.hpp"
#include "runtime/process/containment.hpp"
#include "runtime/rendezvous/c10d_meeting.hpp"
#include "runtime/rendezvous/static_meeting.hpp"

#include <boost/asio/io_context.hpp>
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace cpprun {
namespace {

void show(const std::vector<Notice>& notices) {
    for (const Notice& notice : notices)
        log(notice.level == Notice::Level::warning ? LogLevel::warning : LogLevel::info, notice.text);
}

Result<std::vector<std::vector<int>>> cpus_by_rank(const LaunchConfig& config, const HostFacts& host) {
    std::vector<std::vector<int>> out;
    if (config.numa_binding == NumaBinding::none) return out;
    const ProbeRoots roots = probe_roots(host.environment);
    BindingRequest request;
    request.how = config.numa_binding;
    request.local_world_size = config.nproc_per_node;
    request.device_pci = device_addresses_by_rank(probe_devices(ProbeDepth::files, roots), host.environment);
    request.affinity = host.cpu.affinity;
    BOOST_OUTCOME_TRY(const auto bindings, bind_all_ranks(probe_numa(request.device_pci, roots), request));
    for (const CpuBinding& binding : bindings) out.push_back(binding.cpus);
    return out;
}

Result<std::optional<VirtualDevices>> virtual_devices(const LaunchConfig& config, const HostFacts& host) {
    if (!config.virtual_local_rank) return std::optional<VirtualDevices>{};
    BOOST_OUTCOME_TRY(auto devices, virtual_device_list(host.environment, config.nproc_per_node));
    return std::optional(std::move(devices));
}

void say_for_store(StoreLogLevel level, const std::string& line) {
    const LogLevel as = level == StoreLogLevel::warning ? LogLevel::warning
                        : level == StoreLogLevel::info  ? LogLevel::info
                                                        : LogLevel::debug;
    log(as, line);
}

Result<std::unique_ptr<JobMeeting>> open_meeting(const LaunchConfig& config, const HostFacts& host,
                                                 boost::asio::io_context& io) {
    if (config.rendezvous.max_nodes > 1) {
        if (config.rendezvous.kind == RendezvousKind::c10d)
            return std::make_unique<C10dMeeting>(config, host, io.get_executor(), say_for_store);
        return std::make_unique<StaticMeeting>(config, host, io.get_executor(), say_for_store);
    }
    BOOST_OUTCOME_TRY(auto workers, WorkerMeeting::open(config, say_for_store));
    return std::make_unique<LocalMeeting>(config, host.host_name, std::move(workers));
}

Result<std::optional<EventFile>> open_events(const LaunchConfig& config) {
    if (config.events_file.empty()) return std::optional<EventFile>{};
    BOOST_OUTCOME_TRY(EventFile file, EventFile::open(config.events_file));
    return std::optional(std::move(file));
}

void write_run_index(const RunLogs& logs, const LaunchConfig& config, const Chronicle& chronicle,
                     const RunResult* result) {
    if (logs.directory().empty() || !leaves_run_index(config.logs, config.nproc_per_node)) return;
    const Result<void> written =
        write_file(logs.directory() + "/run.json",
                   run_index(chronicle.run(), config.logs, config_json({config, {}}), chronicle.rounds(), result));
    if (!written) log(LogLevel::error, "cannot leave run.json: " + written.error().message, true);
}

Result<std::unique_ptr<Containment>> contain_workers(const LaunchConfig& config) {
    std::vector<std::string> refusals;
    BOOST_OUTCOME_TRY(auto containment, open_containment(config.stop.containment, refusals));
    for (const std::string& refusal : refusals) log(LogLevel::info, refusal);
    log(LogLevel::info,
        fmt::format("Workers are contained by {}: {}", tier_name(containment->tier()), containment->description()));
    return containment;
}

struct FinishedRun {
    RunResult result;
    RunEvidence evidence;
};

Result<FinishedRun> run(const LaunchConfig& config, const HostFacts& host, SignalInheritance signals) {
    BOOST_OUTCOME_TRY(std::optional<EventFile> events, open_events(config));
    std::set<int> wanted = handled_signals(config.stop);
    wanted.insert(config.stop.forward_signals.begin(), config.stop.forward_signals.end());
    if (config.logs.capture == Capture::pty) wanted.insert(SIGWINCH);
    hold_also(signals, wanted);
    BOOST_OUTCOME_TRY(auto cpus, cpus_by_rank(config, host));
    BOOST_OUTCOME_TRY(auto devices, virtual_devices(config, host));
    LogConfig log_config = config.logs;
    if (log_config.capture == Capture::automatic)
        log_config.capture = ::isatty(STDERR_FILENO) == 1 ? Capture::off : Capture::file;
    BOOST_OUTCOME_TRY(RunLogs logs, RunLogs::create(log_config, config.rendezvous.run_id, host.environment));
    if (config.rendezvous.standalone) log(LogLevel::info, standalone_block(config));
    log(LogLevel::info, fmt::format("Using nproc_per_node={}.", config.nproc_text));
    if (!config.nproc_explanation.empty()) log(LogLevel::info, config.nproc_explanation);
    if (!config.program.interpreter.empty())
        log(LogLevel::info,
            fmt::format("Workers run with {}: {}", config.program.interpreter, config.program.interpreter_reason));
    // The block shows the directory that holds the run's one.
    log(LogLevel::info, launch_block(config, std::filesystem::path(logs.directory()).parent_path().string()));
    const std::optional<rlimit> given_limit = raise_descriptor_limit();
    BOOST_OUTCOME_TRY(const auto containment, contain_workers(config));
    FinishedRun finished;
    {
        boost::asio::io_context io(1);
        Result<std::unique_ptr<JobMeeting>> meeting = open_meeting(config, host, io);
        if (!meeting) {
            logs.finish();
            return meeting.error();
        }
        AgentDriver agent(io, {config, host, signals, given_limit, std::move(cpus), std::move(devices), logs,
                               *meeting.value(), *containment, events ? &*events : nullptr});
        write_run_index(logs, config, agent.chronicle(), nullptr);
        finished.result = agent.run();
        write_run_index(logs, config, agent.chronicle(), &finished.result);
        finished.evidence.rounds = agent.chronicle().rounds();
        finished.evidence.job_failures = meeting.value()->job_failures();
    }
    logs.finish();
    // A temporary one is gone if no file was in it.
    std::error_code ignored;
    if (!logs.directory().empty() && std::filesystem::exists(logs.directory(), ignored))
        finished.evidence.log_directory = logs.directory();
    finished.evidence.log_directory_was_asked_for = logs.directory_was_asked_for();
    return finished;
}

}  // namespace

int launch(const LaunchConfig& config, const std::vector<Notice>& notices, const HostFacts& host,
           const SignalInheritance& signals) {
    show(notices);
    if (config.store.only) {
        const Result<void> served = serve_store(config, signals, say_for_store);
        if (served) return 0;
        report_error(served.error(), host.program_name);
        return exit_code(served.error().kind);
    }
    Result<FinishedRun> finished = run(config, host, signals);
    if (!finished) {
        RunResult refused;
        refused.outcome = RunResult::Outcome::not_started;
        refused.error = finished.error();
        report_run(refused, config, host, {});
        return exit_code(finished.error().kind);
    }
    const RunResult& result = finished.value().result;
    report_run(result, config, host, finished.value().evidence);
    if (result.outcome == RunResult::Outcome::signaled && !result.signal_handled) die_by_signal(result.signo);
    return exit_code(result, config.stop);
}

}  // namespace cpprun
