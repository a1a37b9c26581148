// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/worker_evidence.hpp"

#include "core/process/cgroup_path.hpp"
#include "core/text/whole_number.hpp"
#include "runtime/os/unique_fd.hpp"
#include "runtime/os/whole_io.hpp"

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <string_view>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cpprun {
namespace {

// More of the kernel's log is not looked at.
constexpr int kernel_records_max = 20'000;
// What a cgroup without a limit shows is near 2^63 (version 1).
constexpr std::int64_t no_limit = std::int64_t{1} << 60U;

std::optional<std::string> contents(const std::string& path) {
    std::optional<std::string> text = kernel_file(path);
    while (text && text->ends_with('\n')) text->pop_back();
    return text;
}

/// The number behind "name " at the beginning of a line.
std::optional<std::int64_t> counter(const std::string& path, std::string_view name) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
            return whole_number(std::string_view(line).substr(name.size() + 1));
    return std::nullopt;
}

bool dumps_core(int signo) {
    static constexpr std::array signals{SIGABRT, SIGBUS, SIGFPE,  SIGILL,  SIGQUIT,
                                        SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ};
    for (const int one : signals)
        if (one == signo) return true;
    return false;
}

/// Whether the kernel's log says that it killed this process. None: the log cannot be read.
std::optional<bool> kernel_log_names(pid_t pid) {
    const UniqueFd log(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!log) return std::nullopt;
    const std::string words = fmt::format("Killed process {} (", pid);
    std::array<char, 8192> record{};
    for (int i = 0; i < kernel_records_max; ++i) {
        const ssize_t got = ::read(log.get(), record.data(), record.size());
        if (got < 0 && errno == EPIPE) continue;  // overwritten meanwhile
        if (got <= 0) return i > 0 ? std::optional(false) : std::nullopt;
        if (std::string_view(record.data(), static_cast<std::size_t>(got)).find(words) != std::string_view::npos)
            return true;
    }
    return false;
}

}  // namespace

WorkerEvidence::WorkerEvidence(std::string proc, std::string cgroups) : proc_(std::move(proc)) {
    for (const auto& [controllers, path] : cgroup_memberships(contents(proc_ + "/self/cgroup").value_or(""))) {
        const bool memory = ("," + controllers + ",").find(",memory,") != std::string::npos;
        if (!memory && (!controllers.empty() || !memory_directory_.empty())) continue;
        memory_root_ = memory ? cgroups + "/memory" : cgroups;
        unified_ = !memory;
        memory_directory_ = memory_root_ + (path == "/" ? "" : path);
        // A container may see its own cgroup as the root.
        if (::access(memory_directory_.c_str(), F_OK) != 0) memory_directory_ = memory_root_;
    }
}

WorkerEvidence::Kills WorkerEvidence::count_kills() const {
    Kills kills;
    if (!memory_directory_.empty())
        kills.in_cgroup =
            counter(memory_directory_ + (unified_ ? "/memory.events" : "/memory.oom_control"), "oom_kill");
    kills.on_machine = counter(proc_ + "/vmstat", "oom_kill");
    return kills;
}

void WorkerEvidence::begin_attempt() {
    before_ = count_kills();
}

MemoryKill WorkerEvidence::judge_memory(pid_t pid) const {
    const Kills now = count_kills();
    const auto more = [](const std::optional<std::int64_t>& then, const std::optional<std::int64_t>& later) {
        return then && later && *later > *then;
    };
    if (more(before_.in_cgroup, now.in_cgroup)) return MemoryKill::yes;
    const bool on_machine = more(before_.on_machine, now.on_machine);
    if (!now.on_machine || on_machine) {
        const std::optional<bool> named = kernel_log_names(pid);
        if (named && *named) return MemoryKill::yes;
    }
    if (on_machine) return MemoryKill::likely;
    return now.on_machine ? MemoryKill::no : MemoryKill::unknown;
}

std::string WorkerEvidence::memory_limit() const {
    std::string text;
    std::int64_t smallest = no_limit;
    for (std::string at = memory_directory_; at.size() >= memory_root_.size() && !at.empty();
         at.resize(at.find_last_of('/') == std::string::npos ? 0 : at.find_last_of('/'))) {
        const std::string file = at + (unified_ ? "/memory.max" : "/memory.limit_in_bytes");
        const auto content = contents(file);
        const auto limit = content ? whole_number(*content) : std::nullopt;
        if (!limit || *limit >= smallest) continue;
        smallest = *limit;
        text = fmt::format("{:.1f} MiB ({})", static_cast<double>(*limit) / (1024 * 1024), file);
    }
    return text;
}

std::string WorkerEvidence::core_text(pid_t pid, bool dumped) const {
    const std::string pattern = contents(proc_ + "/sys/kernel/core_pattern").value_or("");
    if (dumped) {
        if (pattern.starts_with("|")) return "dumped, given to " + pattern.substr(1, pattern.find(' ') - 1);
        const bool with_pid = contents(proc_ + "/sys/kernel/core_uses_pid").value_or("0") != "0";
        if (pattern.find('%') != std::string::npos) return "dumped, named after " + pattern + " (core_pattern)";
        const std::string name = with_pid ? fmt::format("{}.{}", pattern, pid) : pattern;
        return "dumped, " + name + (name.starts_with("/") ? "" : " in its working directory");
    }
    rlimit limit{};
    if (!pattern.starts_with("|") && ::getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0)
        return "not dumped: the limit is 0 (ulimit -c unlimited allows it)";
    return "not dumped (core_pattern: " + pattern + ")";
}

FailureEvidence WorkerEvidence::gather(pid_t pid, ExitStatus status) const {
    FailureEvidence evidence;
    siginfo_t info{};
    rusage usage{};
    // The kernel's own waitid, unlike the library's, tells what the process has used.
    if (::syscall(SYS_waitid, P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT, &usage) == 0 && info.si_pid == pid) {
        evidence.core_dumped = info.si_code == CLD_DUMPED;
        evidence.peak_kib = static_cast<std::uint64_t>(usage.ru_maxrss);
    }
    if (!status.signaled) return evidence;
    if (status.value == SIGKILL) {
        evidence.memory_kill = judge_memory(pid);
        evidence.memory_limit = memory_limit();
    }
    if (dumps_core(status.value)) evidence.core = core_text(pid, evidence.core_dumped);
    struct statvfs shared {};
    if (status.value == SIGBUS && ::statvfs("/dev/shm", &shared) == 0)
        evidence.shared_memory_free = std::uint64_t{shared.f_bavail} * shared.f_frsize;
    return evidence;
}

}  // namespace cpprun
