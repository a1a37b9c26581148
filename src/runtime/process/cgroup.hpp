// SPDX-License-Identifier: BSD-3-Clause
// The part of the cgroup tree (v2) that one launch makes for itself: a directory below the cgroup in which it was
// started, and a directory for each worker in there. No controller is switched on; nothing is changed above.
#pragma once

#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace cpprun {

/// One directory of the tree. Copies name the same one.
class Cgroup {
  public:
    explicit Cgroup(std::string directory) : directory_(std::move(directory)) {}

    const std::string& directory() const { return directory_; }
    /// The processes in it and below it, without zombies. Empty when it is gone.
    std::vector<pid_t> processes() const;
    /// SIGKILL for all of them and for whatever they fork meanwhile; returns at once. False when it is gone.
    bool kill() const;
    /// Takes the processes that are in it to `other`. Those that fork meanwhile may be left.
    void move_processes_to(const Cgroup& other) const;
    /// Removes it and the directories below, if no process is left in them.
    bool remove() const;

  private:
    std::string directory_;
};

/// The launch's own subtree.
class CgroupTree {
  public:
    /// Makes it, and tries whether a process can be started in there and killed. Removes what launches have left that
    /// were killed together with their guards, and kills what still runs in there. Errors say what is not allowed.
    static Result<CgroupTree> create();

    /// The cgroup in which this process was started.
    const Cgroup& home() const { return home_; }
    const Cgroup& root() const { return root_; }
    /// A descriptor that a guard keeps: as long as one of us has it, no other launch takes the tree for an abandoned
    /// one.
    int lock() const { return lock_.get(); }
    /// A new, empty directory for a worker.
    Result<Cgroup> add();

  private:
    CgroupTree(Cgroup home, Cgroup root, UniqueFd lock)
        : home_(std::move(home)), root_(std::move(root)), lock_(std::move(lock)) {}

    Cgroup home_;
    Cgroup root_;
    UniqueFd lock_;  ///< held by us and by our guards: without it the directory is nobody's
    int added_ = 0;
};

}  // namespace cpprun
