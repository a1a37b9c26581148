// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/logs/log_files.hpp"

#include "core/error.hpp"
#include "core/logs/log_layout.hpp"
#include "runtime/logs/captured_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/random.h>
#include <sys/stat.h>
#include <system_error>

namespace cpprun {
namespace {

namespace fs = std::filesystem;

/// What the user can only put right by another --log-dir, against what may be over in a minute.
bool is_wrong_directory(int error) {
    return error == EACCES || error == EPERM || error == EROFS || error == ENOTDIR || error == EEXIST ||
           error == ENAMETOOLONG || error == ELOOP || error == EINVAL || error == ENOENT;
}

Error cannot_make(const std::string& path, int error) {
    const std::string message = "cannot make the log directory " + path + ": " + error_text(error);
    return is_wrong_directory(error) ? usage_error(message, "--log-dir names another one") : failure(message);
}

/// Eight characters of [a-z0-9_], as Python's mkdtemp makes them (contract 5.1).
std::string random_part() {
    static constexpr std::string_view characters = "abcdefghijklmnopqrstuvwxyz0123456789_";
    std::array<unsigned char, 8> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        throw std::system_error(errno, std::generic_category(), "getrandom");
    }
    std::string text;
    for (const unsigned char byte : bytes) text += characters[byte % characters.size()];
    return text;
}

/// Makes `<parent>/<stem>_<random>`, mode 0700.
Result<std::string> make_random_directory(const std::string& parent, const std::string& stem) {
    for (int tries = 0; tries < 100; ++tries) {
        std::string path = join_path(parent, stem + "_" + random_part());
        if (::mkdir(path.c_str(), S_IRWXU) == 0) return path;
        if (errno != EEXIST) return cannot_make(path, errno);
    }
    return cannot_make(join_path(parent, stem), EEXIST);
}

std::vector<std::string> temporary_directories(const Environment& environment) {
    std::vector<std::string> directories;
    for (const char* name : {"TMPDIR", "TEMP", "TMP"}) {
        const auto variable = environment.find(name);
        if (variable != environment.end() && !variable->second.empty()) directories.push_back(variable->second);
    }
    directories.insert(directories.end(), {"/tmp", "/var/tmp"});
    return directories;
}

Result<std::string> make_temporary_base(const Environment& environment) {
    const std::vector<std::string> candidates = temporary_directories(environment);
    for (const std::string& candidate : candidates) {
        if (auto base = make_random_directory(candidate, "torchelastic")) return base;
    }
    return make_random_directory(candidates.front(), "torchelastic");
}

Result<void> make_given_base(const std::string& path) {
    std::error_code problem;
    const fs::file_status status = fs::status(path, problem);
    if (fs::exists(status) && !fs::is_directory(status)) {
        return usage_error("--log-dir=" + path + ": log_dir: " + path + " is a file");
    }
    fs::create_directories(path, problem);
    if (problem) return cannot_make(path, problem.value());
    return boost::outcome_v2::success();
}

Result<UniqueFd> open_log(const std::string& path) {
    // O_APPEND: a worker's shell that writes to /dev/stdout opens, and truncates, the file a second time.
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (!file) return failure("cannot make the log file " + path + ": " + error_text(errno));
    return file;
}

bool holds_a_file(const std::string& directory) {
    std::error_code problem;
    for (fs::recursive_directory_iterator entry(directory, problem), end; !problem && entry != end;
         entry.increment(problem)) {
        if (entry->is_symlink() || !entry->is_directory()) return true;
    }
    return static_cast<bool>(problem);
}

/// rmdir from the leaves up. Unlike remove_all it cannot take a file with it that came into being meanwhile.
void remove_empty_tree(const fs::path& directory) {
    std::error_code problem;
    std::vector<fs::path> directories{directory};
    for (fs::recursive_directory_iterator entry(directory, problem), end; !problem && entry != end;
         entry.increment(problem)) {
        directories.push_back(entry->path());
    }
    std::for_each(directories.rbegin(), directories.rend(), [](const fs::path& path) { ::rmdir(path.c_str()); });
}

bool needs_directory(const LogConfig& config) {
    return !config.duplicate_stdout_filters.empty() || !config.duplicate_stderr_filters.empty();
}

Result<void> follow_stream(Tail& tail, const WorkerLogs& worker, const WorkerStream& stream, Std which,
                           const FilteredLog& filtered, LinePrefix prefix) {
    if (stream.path.empty() && !stream.captured) return boost::outcome_v2::success();
    return tail.add_stream(TailStream{.path = stream.path,
                                      .terminal = stream.terminal,
                                      .captured = stream.captured,
                                      .local_rank = worker.local_rank,
                                      .stream = which,
                                      .shown = stream.shown,
                                      .prefix = std::move(prefix),
                                      .filters = filtered.needles,
                                      .filtered_file = filtered.file});
}

}  // namespace

Result<RunLogs> RunLogs::create(const LogConfig& config, const std::string& run_id, const Environment& environment) {
    RunLogs logs(config);
    if (config.disabled) {
        if (!needs_directory(config)) return logs;
        return usage_error("--log-dir=/dev/null leaves no place for the duplicate filters' files",
                           "without --duplicate-stdout-filters and --duplicate-stderr-filters it works");
    }
    std::string base;
    if (config.base_dir) {
        base = *config.base_dir;
        BOOST_OUTCOME_TRY(make_given_base(base));
    } else {
        BOOST_OUTCOME_TRY(base, make_temporary_base(environment));
        logs.temporary_base_ = base;
    }
    auto directory = make_random_directory(base, run_directory_stem(run_id));
    if (!directory) {
        logs.finish();
        return directory.error();
    }
    logs.directory_ = std::move(directory.value());
    return logs;
}

bool RunLogs::shows(int local_rank) const {
    const std::int64_t rank = first_rank_ + local_rank;
    if (config_.reading_rank == rank) return true;
    const std::vector<RankSpan>& ranges = config_.ranks_filter;
    const auto holds_it = [rank](const RankSpan& range) { return range.first <= rank && rank <= range.last; };
    if (!ranges.empty() && std::none_of(ranges.begin(), ranges.end(), holds_it)) return false;
    const std::vector<int>& chosen = config_.local_ranks_filter;
    // torchrun's filter does nothing without a log directory.
    if (chosen.empty() || config_.disabled) return true;
    return std::find(chosen.begin(), chosen.end(), local_rank) != chosen.end();
}

bool RunLogs::has_file(int local_rank) const {
    return config_.tee.of(local_rank) != Std::none || config_.redirects.of(local_rank) != Std::none;
}

Result<std::string> RunLogs::make_attempt_directory(int restart_count, int round) {
    const bool first = counts_used_.insert(restart_count).second;
    std::string path = join_path(directory_, attempt_directory_name(restart_count, round, first));
    if (::mkdir(path.c_str(), 0777) != 0) return cannot_make(path, errno);
    return path;
}

Result<WorkerStream> RunLogs::open_stream(const std::string& attempt_directory, int local_rank, Std stream) const {
    WorkerStream opened;
    const bool teed = contains(config_.tee.of(local_rank), stream);
    if (config_.disabled || (!teed && !contains(config_.redirects.of(local_rank), stream))) {
        if (!shows(local_rank)) opened.target = WorkerStream::Target::null;
        if (stream == Std::err) return open_captured(local_rank, std::move(opened));
        return opened;
    }
    opened.path = stream_log_path(attempt_directory, local_rank, stream);
    BOOST_OUTCOME_TRY(opened.file, open_log(opened.path));
    opened.target = WorkerStream::Target::file;
    opened.shown = teed && shows(local_rank);
    return opened;
}

/// A stream that would go `direct`, by way of a file that is copied on.
Result<WorkerStream> RunLogs::open_captured(int local_rank, WorkerStream direct) const {
    if (config_.capture == Capture::off || config_.capture == Capture::automatic) return direct;
    BOOST_OUTCOME_TRY(CapturedFile captured, make_captured_file("stderr of local rank " + std::to_string(local_rank)));
    WorkerStream opened;
    opened.shown = direct.target == WorkerStream::Target::inherit;
    opened.target = WorkerStream::Target::file;
    opened.file = std::move(captured.writer);
    if (config_.capture == Capture::pty || config_.capture == Capture::pipe) {
        BOOST_OUTCOME_TRY(OpenedTerminal terminal,
                          config_.capture == Capture::pty ? open_terminal(launchers_terminal_size()) : open_pipe());
        opened.terminal = std::make_shared<CapturedTerminal>(
            CapturedTerminal{std::move(terminal.launcher_side), std::move(opened.file)});
        opened.file = std::move(terminal.worker_side);
    }
    opened.captured = std::move(captured.reader);
    return opened;
}

Result<FilteredLog> RunLogs::open_filtered(const std::string& attempt_directory, Std stream) const {
    FilteredLog filtered;
    filtered.needles = stream == Std::out ? config_.duplicate_stdout_filters : config_.duplicate_stderr_filters;
    if (filtered.needles.empty() || config_.disabled) return filtered;
    BOOST_OUTCOME_TRY(UniqueFd file, open_log(filtered_log_path(attempt_directory, stream)));
    filtered.file = std::make_shared<const UniqueFd>(std::move(file));
    return filtered;
}

Result<AttemptLogs> RunLogs::begin_attempt(int restart_count, int round, int nproc, std::int64_t first_rank) {
    first_rank_ = first_rank;
    AttemptLogs attempt;
    if (!config_.disabled) {
        BOOST_OUTCOME_TRY(attempt.directory, make_attempt_directory(restart_count, round));
        std::vector<std::string> paths;
        for (int rank = 0; rank < nproc; ++rank) paths.push_back(worker_directory(attempt.directory, rank));
        attempt.worker_directories = std::make_unique<WorkerDirectories>(std::move(paths));
    }
    for (int rank = 0; rank < nproc; ++rank) {
        WorkerLogs worker{.local_rank = rank, .error_file = {}, .out = {}, .err = {}};
        if (!config_.disabled) {
            worker.error_file = error_file_path(attempt.directory, rank);
            if (has_file(rank)) {
                BOOST_OUTCOME_TRY(attempt.wait_for_directory(rank));
            }
        }
        BOOST_OUTCOME_TRY(worker.out, open_stream(attempt.directory, rank, Std::out));
        BOOST_OUTCOME_TRY(worker.err, open_stream(attempt.directory, rank, Std::err));
        attempt.workers.push_back(std::move(worker));
    }
    BOOST_OUTCOME_TRY(attempt.filtered_stdout, open_filtered(attempt.directory, Std::out));
    BOOST_OUTCOME_TRY(attempt.filtered_stderr, open_filtered(attempt.directory, Std::err));
    return attempt;
}

Result<void> AttemptLogs::wait_for_directory(int local_rank) const {
    const int error = worker_directories ? worker_directories->wait_for(local_rank) : 0;
    if (error != 0) return cannot_make(worker_directories->path(local_rank), error);
    return boost::outcome_v2::success();
}

void RunLogs::finish() {
    if (temporary_base_.empty() || holds_a_file(temporary_base_)) return;
    remove_empty_tree(temporary_base_);
}

Result<void> follow(Tail& tail, const AttemptLogs& logs,
                    const std::function<LinePrefix(int local_rank, Std)>& prefix_of) {
    for (const WorkerLogs& worker : logs.workers) {
        const int rank = worker.local_rank;
        BOOST_OUTCOME_TRY(
            follow_stream(tail, worker, worker.out, Std::out, logs.filtered_stdout, prefix_of(rank, Std::out)));
        BOOST_OUTCOME_TRY(
            follow_stream(tail, worker, worker.err, Std::err, logs.filtered_stderr, prefix_of(rank, Std::err)));
    }
    return boost::outcome_v2::success();
}

}  // namespace cpprun
