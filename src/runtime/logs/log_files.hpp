// SPDX-License-Identifier: BSD-3-Clause
// Makes the directories and files of a run's logs (contract 5.1, 5.2, 5.5, 5.7): --log-dir, --redirects, --tee,
// --local-ranks-filter, --duplicate-stdout-filters, --duplicate-stderr-filters. core/logs/log_layout.hpp names them.
// Copying to the console is runtime/logs/tail.hpp's part.
#pragma once

#include "core/error.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"
#include "runtime/logs/tail.hpp"
#include "runtime/logs/worker_directories.hpp"
#include "runtime/os/unique_fd.hpp"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace cpprun {

/// Where one stream of one worker goes.
struct WorkerStream {
    enum class Target {
        inherit,  ///< the launcher's own descriptor
        null,     ///< /dev/null: --local-ranks-filter leaves the rank out
        file,     ///< `file`
    };
    Target target = Target::inherit;
    UniqueFd file = {};     ///< for the child, O_APPEND and O_CLOEXEC; close it once the worker has been started
    std::string path = {};  ///< the log's name, empty without a file
    bool shown = false;     ///< teed or captured, and not left out by --local-ranks-filter
    /// With --capture: `file` is one of the launcher's, and this its reading end.
    std::shared_ptr<const UniqueFd> captured = {};
    std::shared_ptr<CapturedTerminal> terminal = {};  ///< with Capture::pty; `file` is its worker's side
};

struct WorkerLogs {
    int local_rank = 0;
    std::string error_file;  ///< TORCHELASTIC_ERROR_FILE; not there yet, in the rank's fresh directory; empty: no logs
    WorkerStream out;
    WorkerStream err;
};

/// The attempt's file of lines chosen by a duplicate filter; no file when there is no filter.
struct FilteredLog {
    std::shared_ptr<const UniqueFd> file;
    std::vector<std::string> needles;
};

struct AttemptLogs {
    std::string directory;                                  ///< empty: no log directory
    std::unique_ptr<WorkerDirectories> worker_directories;  ///< may be under way still; empty: none
    std::vector<WorkerLogs> workers;                        ///< by local rank
    FilteredLog filtered_stdout;
    FilteredLog filtered_stderr;

    /// Blocks until the rank's directory is there; or why it could not be made.
    Result<void> wait_for_directory(int local_rank) const;
};

class RunLogs {
  public:
    /// Makes the base directory (--log-dir with its parents, or a fresh `torchelastic_<random>` where temporary files
    /// go: $TMPDIR, $TEMP, $TMP, /tmp, /var/tmp, the first that can be used) and `<run id>_<random>` in it, mode 0700.
    /// Capture::automatic is for the caller to decide, and counts as off.
    /// Nothing is made for --log-dir=/dev/null. Usage error when the directory is a file or may not be written,
    /// and for duplicate filters without a directory; a failure when the disk or the table of files is full.
    static Result<RunLogs> create(const LogConfig& config, const std::string& run_id, const Environment& environment);

    /// Makes the attempt's directories for ranks 0..nproc-1, which may still be under way, and opens, empty, the files
    /// that they need. Never touches those of an earlier attempt: the first with `restart_count` is `attempt_<n>`, a
    /// later one `attempt_<n>.<round>`. `first_rank` is the global rank of local rank 0.
    Result<AttemptLogs> begin_attempt(int restart_count, int round, int nproc, std::int64_t first_rank = 0);

    /// `<base>/<run id>_<random>`; empty: no log directory.
    const std::string& directory() const { return directory_; }
    /// False when the user named no directory.
    bool directory_was_asked_for() const { return temporary_base_.empty(); }

    /// At the very end: removes the temporary base if no file is below it. (torchrun leaves it.) A directory that the
    /// user asked for stays as it is. What cannot be removed stays, in silence.
    void finish();

  private:
    explicit RunLogs(LogConfig config) : config_(std::move(config)) {}

    bool shows(int local_rank) const;
    bool has_file(int local_rank) const;
    Result<std::string> make_attempt_directory(int restart_count, int round);
    Result<WorkerStream> open_stream(const std::string& attempt_directory, int local_rank, Std stream) const;
    Result<WorkerStream> open_captured(int local_rank, WorkerStream direct) const;
    Result<FilteredLog> open_filtered(const std::string& attempt_directory, Std stream) const;

    LogConfig config_;
    std::string directory_;
    std::string temporary_base_;  ///< empty: --log-dir
    std::int64_t first_rank_ = 0;
    std::set<int> counts_used_;
};

/// Gives the attempt's files to `tail`: teed streams to copy with the prefix of their local rank and stream, redirected
/// ones to watch for a full disk. To be called before the workers start. Failure when no more files can be opened.
Result<void> follow(Tail& tail, const AttemptLogs& logs,
                    const std::function<LinePrefix(int local_rank, Std)>& prefix_of);

}  // namespace cpprun
