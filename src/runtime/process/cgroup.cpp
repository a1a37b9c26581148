// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/process/cgroup.hpp"

#include "core/process/cgroup_path.hpp"
#include "runtime/os/whole_io.hpp"
#include "runtime/process/spawn.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace cpprun {
namespace {

constexpr std::string_view tree_prefix = "cpprun-";
constexpr int names_tried = 16;
constexpr int rounds_max = 16;
constexpr int removal_waits = 200;
constexpr std::chrono::milliseconds removal_wait{2};

bool write_text(const std::string& path, std::string_view text) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

std::vector<std::string> directories_in(const std::string& path) {
    std::vector<std::string> found;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
        if (entry->is_directory(error)) found.push_back(entry->path());
    return found;
}

Error refused(const std::string& what) {
    return failure(what + ": " + error_text(errno));
}

UniqueFd open_directory(const std::string& path) {
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/// "cpprun-PID-N".
bool is_name_of_tree(const std::string& name) {
    return name.starts_with(tree_prefix) && name.size() > tree_prefix.size() &&
           name.find_first_not_of("0123456789-", tree_prefix.size()) == std::string::npos;
}

/// What a launch has left that was killed together with all its guards: whoever lives holds the lock.
void remove_abandoned(const Cgroup& home) {
    for (const std::string& path : directories_in(home.directory())) {
        if (!is_name_of_tree(std::filesystem::path(path).filename())) continue;
        const UniqueFd directory = open_directory(path);
        if (!directory || ::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) continue;
        const Cgroup abandoned(path);
        for (int wait = 0; !abandoned.remove() && wait < removal_waits; ++wait) {
            if (!abandoned.kill()) break;
            std::this_thread::sleep_for(removal_wait);
        }
    }
}

/// Whether a process can be started in there, and all in there be killed.
Result<void> try_out(const Cgroup& cgroup) {
    const UniqueFd directory = open_directory(cgroup.directory());
    if (!directory) return refused("cannot open " + cgroup.directory());
    const pid_t pid = fork_into_cgroup(directory.get());
    if (pid == 0) ::_exit(0);
    if (pid < 0) return refused("cannot start a process in " + cgroup.directory());
    ::waitpid(pid, nullptr, 0);
    if (!cgroup.kill()) return refused("cannot write " + cgroup.directory() + "/cgroup.kill");
    return boost::outcome_v2::success();
}

/// The new directory with its lock. Nobody holds the lock of a directory that is just made, so that another launch may
/// take it for an abandoned one and remove it: then the next name.
Result<std::pair<Cgroup, UniqueFd>> make_locked(const Cgroup& home) {
    for (int i = 0; i < names_tried; ++i) {
        const std::string path =
            home.directory() + "/" + std::string(tree_prefix) + std::to_string(::getpid()) + "-" + std::to_string(i);
        if (::mkdir(path.c_str(), 0755) != 0) {
            if (errno == EEXIST) continue;
            return refused("cannot make a directory in " + home.directory());
        }
        UniqueFd directory = open_directory(path);
        if (!directory || ::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) continue;
        struct stat status {};
        if (::stat(path.c_str(), &status) != 0) continue;
        return std::pair(Cgroup(path), std::move(directory));
    }
    return failure("no name for a directory in " + home.directory());
}

}  // namespace

std::vector<pid_t> Cgroup::processes() const {
    std::vector<pid_t> pids;
    std::ifstream file(directory_ + "/cgroup.procs");
    for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
    for (const std::string& path : directories_in(directory_)) {
        const std::vector<pid_t> below = Cgroup(path).processes();
        pids.insert(pids.end(), below.begin(), below.end());
    }
    return pids;
}

bool Cgroup::kill() const {
    return write_text(directory_ + "/cgroup.kill", "1");
}

void Cgroup::move_processes_to(const Cgroup& other) const {
    const std::string target = other.directory() + "/cgroup.procs";
    for (int round = 0; round < rounds_max; ++round) {
        const std::vector<pid_t> pids = processes();
        if (pids.empty()) return;
        for (const pid_t pid : pids) write_text(target, std::to_string(pid));
    }
}

bool Cgroup::remove() const {
    for (const std::string& path : directories_in(directory_)) Cgroup(path).remove();
    return ::rmdir(directory_.c_str()) == 0 || errno == ENOENT;
}

Result<CgroupTree> CgroupTree::create() {
    Error error = failure("no cgroup of version 2 is mounted where this process's is seen");
    for (const std::string& path : cgroup_directories(kernel_file("/proc/self/cgroup").value_or(""),
                                                      kernel_file("/proc/self/mountinfo").value_or(""))) {
        Cgroup home(path);
        auto made = make_locked(home);
        if (!made) {
            error = made.error();
            continue;
        }
        CgroupTree tree(home, std::move(made.value().first), std::move(made.value().second));
        const Result<void> works = try_out(tree.root_);
        if (works) {
            remove_abandoned(home);
            return tree;
        }
        error = works.error();
        tree.root_.remove();
    }
    return error;
}

Result<Cgroup> CgroupTree::add() {
    Cgroup cgroup(root_.directory() + "/worker-" + std::to_string(added_));
    if (::mkdir(cgroup.directory().c_str(), 0755) != 0) return refused("cannot make " + cgroup.directory());
    ++added_;
    return cgroup;
}

}  // namespace cpprun
