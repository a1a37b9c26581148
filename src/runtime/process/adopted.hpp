// SPDX-License-Identifier: BSD-3-Clause
// Processes that fall to this one because their parent has died: it is a subreaper, or a container's first process.
#pragma once

#include <sys/types.h>
#include <vector>

namespace cpprun {

/// Our own children; the others have fallen to us.
class Adopted {
  public:
    /// Whoever is our child by now was so before the launch, and is nobody's business.
    Adopted();

    /// Reaps those that have ended, but none of `own`.
    void reap(const std::vector<pid_t>& own) const;
    /// Those that have fallen to us since the start and still run, with all below them. None for a container's first
    /// process: there strangers fall to us as well, and nobody can tell them apart.
    std::vector<pid_t> living(const std::vector<pid_t>& own) const;
    /// SIGKILL for the same, level by level: what one leaves behind falls to us.
    void kill(const std::vector<pid_t>& own) const;

  private:
    std::vector<pid_t> strangers(const std::vector<pid_t>& own) const;
    std::vector<pid_t> before_;
};

}  // namespace cpprun
