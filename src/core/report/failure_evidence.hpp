// SPDX-License-Identifier: BSD-3-Clause
// What the launcher could find out about the end of one worker, beside its status. runtime/agent gathers it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cpprun {

/// Whether the kernel killed a process because memory was short.
enum class MemoryKill : std::uint8_t {
    not_asked,  ///< it did not die of SIGKILL
    unknown,    ///< nothing that could say so can be read
    no,         ///< the kernel has killed nothing for want of memory meanwhile
    likely,     ///< it has killed something on this machine, in another cgroup or one that is not known
    yes,        ///< it has killed in the worker's cgroup, or names the worker in its log
};

struct FailureEvidence {
    std::string last_words = {};    ///< the end of its stderr, as it came; empty: none, or not known
    bool last_words_known = false;  ///< its stderr went where the launcher can read it
    std::string stderr_log = {};    ///< the file with all of it; empty: none
    MemoryKill memory_kill = MemoryKill::not_asked;
    std::string memory_limit = {};  ///< "512.0 MiB (/sys/fs/cgroup/…/memory.max)"; empty: none known
    std::uint64_t peak_kib = 0;     ///< largest resident memory of the process itself; 0: not known
    bool core_dumped = false;
    std::string core = {};  ///< where the core file is, or why there is none; empty: it died of no such signal
    std::optional<std::uint64_t> shared_memory_free = {};  ///< bytes left in /dev/shm; asked for SIGBUS only
};

}  // namespace cpprun
