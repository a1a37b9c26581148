// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/agent/event_file.hpp"

#include "runtime/diagnostics.hpp"
#include "runtime/os/whole_io.hpp"

#include <cerrno>
#include <fcntl.h>

namespace cpprun {

Result<EventFile> EventFile::open(const std::string& path) {
    // Not blocking: neither for a pipe's reader to come, nor for one that has stopped reading.
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600));
    if (!file)
        return usage_error("--events=" + path + ": cannot open it: " + error_text(errno),
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
    const Written written = write_whole(file_.get(), line);
    if (written.bytes > 0) torn_ = written.error != 0;
    if (written.error == 0 || complained_) return;
    complained_ = true;
    log(LogLevel::error,
        "cannot write all events to " + path_ + ": " + error_text(written.error) +
            "; records are missing there, and the job goes on",
        true);
}

}  // namespace cpprun
