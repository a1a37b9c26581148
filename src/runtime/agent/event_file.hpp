// SPDX-License-Identifier: BSD-3-Clause
// --events=FILE: the file that the run's records are appended to. core/report/chronicle.hpp makes them.
#pragma once

#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace cpprun {

class EventFile {
  public:
    /// Opens `path` for appending, mode 0600 where it is made. It may be a pipe that has a reader, or /dev/stderr.
    /// Usage error where that does not work.
    static Result<EventFile> open(const std::string& path);

    /// Appends each record and a line break. Never waits for a reader. What cannot be written is said once, as an
    /// ERROR, and left out.
    void append(const std::vector<std::string>& records);

  private:
    EventFile(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
    void append(const std::string& record);

    std::string path_;
    UniqueFd file_;
    bool torn_ = false;  ///< the last record stands there in part
    bool complained_ = false;
};

}  // namespace cpprun
