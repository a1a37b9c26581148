// SPDX-License-Identifier: BSD-3-Clause
// Finds out what the system knows about the end of a worker: core/report/failure_evidence.hpp.
#pragma once

#include "core/agent/exit_status.hpp"
#include "core/report/failure_evidence.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

namespace cpprun {

class WorkerEvidence {
  public:
    /// Where the system's files are; tests have their own.
    explicit WorkerEvidence(std::string proc = "/proc", std::string cgroups = "/sys/fs/cgroup");

    /// Workers are about to start: remembers how many processes the kernel has killed for want of memory so far.
    void begin_attempt();

    /// About a process that has ended and has not been reaped. Fills in all but the last words.
    FailureEvidence gather(pid_t pid, ExitStatus status) const;

  private:
    struct Kills {
        std::optional<std::int64_t> in_cgroup;   ///< this process's, which is the workers' too
        std::optional<std::int64_t> on_machine;  ///< since it was booted
    };
    Kills count_kills() const;
    MemoryKill judge_memory(pid_t pid) const;
    std::string memory_limit() const;
    std::string core_text(pid_t pid, bool dumped) const;

    std::string proc_;
    std::string memory_directory_;  ///< of the cgroup; empty: none was found
    std::string memory_root_;
    bool unified_ = false;
    Kills before_;
};

}  // namespace cpprun
