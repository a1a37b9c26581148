// SPDX-License-Identifier: BSD-3-Clause
#include "launch/run_report.hpp"

#include "core/agent/signal_names.hpp"
#include "core/agent/worker_command.hpp"
#include "core/report/failure_report.hpp"
#include "core/report/failure_summary.hpp"
#include "core/text/terminal_safe.hpp"
#include "runtime/diagnostics.hpp"
#include "runtime/os/bounded_file.hpp"
#include "runtime/os/host_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <ctime>

namespace cpprun {
namespace {

std::string local_time(std::int64_t epoch_seconds) {
    const std::time_t time = static_cast<std::time_t>(epoch_seconds);
    std::tm parts{};
    if (::localtime_r(&time, &parts) == nullptr) return std::to_string(epoch_seconds);
    char text[32] = {};
    std::strftime(text, sizeof text, "%Y-%m-%d_%H:%M:%S", &parts);
    return text;
}

std::string own_error_file(const HostFacts& host) {
    const auto found = host.environment.find("TORCHELASTIC_ERROR_FILE");
    return found == host.environment.end() ? std::string{} : found->second;
}

void write_own_error_file(const std::string& path, const std::string& content) {
    const Result<void> written = write_file(path, content);
    if (!written) log(LogLevel::error, "cannot leave an error file for the parent: " + written.error().message, true);
}

void record_launcher_failure(const std::string& message, const HostFacts& host) {
    const std::string path = own_error_file(host);
    if (!path.empty()) write_own_error_file(path, error_file_of_launcher(message, std::time(nullptr)));
}

void copy_to_parent(const WorkerFailure& root, const HostFacts& host) {
    if (!root.record) return;
    if (!root.record->dictionary_form)
        log(LogLevel::warning,
            "child error file (" + root.error_file + ") has a new message format. \nskipping error code override");
    const std::string path = own_error_file(host);
    if (path.empty()) {
        log(LogLevel::error, "no error file defined for parent, to copy child error file (" + root.error_file + ")");
        return;
    }
    write_own_error_file(path, error_file_for_parent(*root.record, root.status.python_code()));
}

void report_causes(const RunResult& result, const LaunchConfig& config, const HostFacts& host,
                   const RunEvidence& evidence) {
    FailureReportInput input;
    input.script = config.program.script;
    input.host = host.host_name;
    input.failures = result.failures;
    if (!evidence.rounds.empty()) {
        input.workers = evidence.rounds.back().workers;
        input.first_rank = evidence.rounds.back().place.ranks.global_base;
        input.evidence = evidence.rounds.back().evidence;
        input.places = evidence.rounds.back().places;
        for (const JobFailure& one : evidence.job_failures)
            if (one.round == evidence.rounds.back().place.round) input.job_failures.push_back(one);
    }
    input.restarts_used = result.restarts_used;
    input.max_restarts = config.max_restarts;
    input.log_directory = evidence.log_directory;
    if (result.outcome == RunResult::Outcome::signaled) input.ended_by = signal_label(result.signo);
    const FailureStory story = tell_failures(input);
    print_to_stderr(failure_report(input, story));
    if (evidence.log_directory.empty() || !evidence.log_directory_was_asked_for) return;
    const Result<void> written = write_file(evidence.log_directory + "/failure.json", failure_json(input, story));
    if (!written) log(LogLevel::error, "cannot leave failure.json: " + written.error().message, true);
}

/// Of a run that a signal ended: something had failed before, or the workers had to be killed.
bool has_a_story(const RunResult& result, const RunEvidence& evidence) {
    const bool killed = !evidence.rounds.empty() && !evidence.rounds.back().evidence.empty();
    return std::any_of(result.failures.begin(), result.failures.end(), [&](const WorkerFailure& failure) {
        return !failure.after_stop_signal || (killed && failure.status == ExitStatus::killed_by(SIGKILL));
    });
}

void report_failures(const RunResult& result, const LaunchConfig& config, const HostFacts& host,
                     const RunEvidence& evidence) {
    if (result.failures.empty()) {
        print_to_stderr("cpprun: the worker group failed and none of its workers left a status of its own");
        return;
    }
    copy_to_parent(result.failures[root_cause(result.failures)], host);
    std::vector<std::string> times;
    for (const WorkerFailure& failure : result.failures) times.push_back(local_time(failure.timestamp));
    print_to_stderr(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" +
        failure_table(report_title(config.program), result.failures, times, full_host_name(host.host_name)));
    const std::string hint = failure_hint(result.failures);
    if (!hint.empty()) print_to_stderr("hint: " + hint);
    // Heard of while this node was stopping its own workers.
    if (!result.report_elsewhere.empty())
        print_to_stderr("another node failed too:\n" + terminal_safe(result.report_elsewhere));
    report_causes(result, config, host, evidence);
}

}  // namespace

void report_run(const RunResult& result, const LaunchConfig& config, const HostFacts& host,
                const RunEvidence& evidence) {
    switch (result.outcome) {
        case RunResult::Outcome::succeeded:
            return;
        case RunResult::Outcome::workers_failed:
            report_failures(result, config, host, evidence);
            return;
        case RunResult::Outcome::signaled: {
            const std::string message =
                fmt::format("SignalException: Process {} got signal: {}", host.pid, result.signo);
            // Who presses Ctrl+C knows; one line has said so.
            if (result.signal_handled && !result.from_terminal)
                print_to_stderr("torch.distributed.elastic.multiprocessing.api." + message);
            record_launcher_failure(message, host);
            if (has_a_story(result, evidence)) report_causes(result, config, host, evidence);
            return;
        }
        case RunResult::Outcome::ended_elsewhere:
        case RunResult::Outcome::not_started:
            report_error(result.error, host.program_name);
            if (!result.report_elsewhere.empty()) print_to_stderr(terminal_safe(result.report_elsewhere));
            record_launcher_failure("RuntimeError: " + result.error.message, host);
            return;
    }
}

void report_error(const Error& error, const std::string& program_name) {
    print_to_stderr(program_name + ": error: " + terminal_safe(error.message));
    if (!error.hint.empty()) print_to_stderr("hint: " + terminal_safe(error.hint));
}

}  // namespace cpprun
