// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/agent/event_file.hpp"

#include "runtime/diagnostics.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>

namespace cpprun {

Result<EventFile> EventFile::open(const std::string& path) {
    // Not blocking: neither for a pipe's reader to come, nor for one that has stopped reading.
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600));
    if (!file)
        return usage_error("--events=" + path + ": cannot open it: " + std::strerror(errno),
                           errno == ENXIO ? "a pipe needs its reader before the launch begins"
                                          : "name a file in a folder that you may write to");
    return EventFile(path, std::move(file));
}

void EventFile::append(const std::vector<std::string>& records) {
    for (const std::string& record : records) append(record);
}

void EventFile::append(const std::string& record) {
    // A whole record in one write: other agents may append to the same file.
    const std::string line = (torn_ ? "\n" : "") + record + "\n";
    std::size_t done = 0;
    while (done < line.size()) {
        const ssize_t put = ::write(file_.get(), line.data() + done, line.size() - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) break;
        done += static_cast<std::size_t>(put);
    }
    const int error = errno;
    if (done > 0) torn_ = done < line.size();
    if (done == line.size() || complained_) return;
    complained_ = true;
    log(LogLevel::error,
        "cannot write all events to " + path_ + ": " + std::strerror(error) +
            "; records are missing there, and the job goes on",
        true);
}

}  // namespace cpprun
