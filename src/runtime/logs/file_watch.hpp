// SPDX-License-Identifier: BSD-3-Clause
// Tells, through inotify, when a file has been written to. One notice per arm(): a file that is written to all the time
// and read to its end only now and then costs its writer nothing in between.
#pragma once

#include "runtime/os/unique_fd.hpp"

#include <unordered_map>
#include <vector>

namespace cpprun {

class FileWatch {
  public:
    /// With use_inotify false, or when the kernel has no instance left, no file can be watched.
    explicit FileWatch(bool use_inotify);

    /// Readable when there are notices; -1 when nothing can be watched.
    int fd() const { return inotify_.get(); }

    /// Can this file be watched? Not where other machines may write to it, as their writes are not seen.
    bool suits(int file) const;

    /// Asks for one notice about the next write to the open file. `token` comes back in it. To miss nothing, read to
    /// the file's end once more after this. False when the kernel refuses (fs.inotify.max_user_watches).
    bool arm(int file, int token);
    /// No notice will be wanted for this token any more.
    void disarm(int token);

    struct Notices {
        std::vector<int> tokens;
        bool overflow = false;  ///< some were lost: look at every file
    };
    /// Takes the notices that have come; never waits.
    Notices take();

  private:
    UniqueFd inotify_;
    std::unordered_map<int, int> token_of_watch_;
};

}  // namespace cpprun
