// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/logs/worker_directories.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/stat.h>
#include <system_error>

namespace cpprun {

WorkerDirectories::WorkerDirectories(std::vector<std::string> paths)
    : paths_(std::move(paths)), failed_(static_cast<int>(paths_.size())) {
    make(0, std::min<std::size_t>(1, paths_.size()));
    if (paths_.size() <= 1) return;
    try {
        maker_ = std::thread([this] { make(1, paths_.size()); });
    } catch (const std::system_error&) {
        make(1, paths_.size());  // no threads left; then it takes its time
    }
}

WorkerDirectories::~WorkerDirectories() {
    if (maker_.joinable()) maker_.join();
}

void WorkerDirectories::make(std::size_t first, std::size_t end) {
    const bool failed_before = failed_ < static_cast<int>(paths_.size());
    for (std::size_t index = first; index < end && !failed_before; ++index) {
        if (::mkdir(paths_[index].c_str(), 0777) != 0) {
            error_ = errno;
            failed_ = static_cast<int>(index);
            break;
        }
        tried_ = static_cast<int>(index) + 1;
        tried_.notify_all();
    }
    tried_ = static_cast<int>(end);
    tried_.notify_all();
}

int WorkerDirectories::wait_for(int index) const {
    for (int tried = tried_; tried <= index; tried = tried_) tried_.wait(tried);
    return failed_ <= index ? error_ : 0;
}

}  // namespace cpprun
