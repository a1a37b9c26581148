// SPDX-License-Identifier: BSD-3-Clause
// Makes the ranks' log directories of one attempt on a thread of its own, while the first workers already start: on
// ext4 a directory costs a fifth of what starting a worker costs.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace cpprun {

class WorkerDirectories {
  public:
    /// Begins to make `paths` in their order, mode 0777 less the umask. The first is there, or has failed, on return.
    explicit WorkerDirectories(std::vector<std::string> paths);
    /// Waits for the rest.
    ~WorkerDirectories();
    WorkerDirectories(const WorkerDirectories&) = delete;
    WorkerDirectories& operator=(const WorkerDirectories&) = delete;

    /// Blocks until the directory with this index has been tried. 0, or the errno of the first that could not be made,
    /// if that is not a later one; those behind it are not tried.
    int wait_for(int index) const;
    const std::string& path(int index) const { return paths_.at(static_cast<std::size_t>(index)); }

  private:
    void make(std::size_t first, std::size_t end);

    std::vector<std::string> paths_;
    int error_ = 0;              ///< of paths_[failed_]; written before failed_
    std::atomic<int> failed_;    ///< index of the first that could not be made; their count: none so far
    std::atomic<int> tried_{0};  ///< how many have been tried, or will not be
    std::thread maker_;
};

}  // namespace cpprun
