// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/logs/console.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cpprun {
namespace {

bool is_pipe_like(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) return false;
    return S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || (S_ISCHR(status.st_mode) && ::isatty(fd) == 1);
}

}  // namespace

bool same_console(int first, int second) {
    struct stat one {};
    struct stat other {};
    if (::fstat(first, &one) != 0 || ::fstat(second, &other) != 0) return false;
    return is_pipe_like(first) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// A pipe that poll calls writable takes PIPE_BUF bytes at once, and takes them as one piece (pipe(7)): so the write
// does not wait, and lines are not torn by other writers of the same pipe. Files and /dev/null never make one wait.
Console::Console(int fd, std::string name)
    : fd_(fd), name_(std::move(name)), write_bytes_max_(is_pipe_like(fd) ? PIPE_BUF : std::size_t{1} << 20U) {}

bool Console::ready() const {
    pollfd waiter{.fd = fd_, .events = POLLOUT, .revents = 0};
    return ::poll(&waiter, 1, 0) != 0;
}

std::size_t Console::next_write_bytes() const {
    const std::size_t waiting = buffer_.size() - begin_;
    if (waiting <= write_bytes_max_) return waiting;
    const char* from = buffer_.data() + begin_;
    const void* end = ::memrchr(from, '\n', write_bytes_max_);
    if (end == nullptr) return write_bytes_max_;
    return static_cast<std::size_t>(static_cast<const char*>(end) - from) + 1;
}

void Console::consume(std::size_t bytes) {
    written_ += bytes;
    begin_ += bytes;
    if (begin_ < buffer_.size()) {
        if (begin_ < bytes_max) return;
        buffer_.erase(0, begin_);
    } else {
        buffer_.clear();
        if (buffer_.capacity() > 8 * bytes_max) buffer_.shrink_to_fit();
    }
    begin_ = 0;
}

std::string Console::fail(int error) {
    failed_ = true;
    consume(buffer_.size() - begin_);
    return "cannot write the workers' output to " + name_ + " any more: " + error_text(error) +
           "; the log files hold all of it and the job goes on";
}

std::optional<std::string> Console::write_waiting() {
    while (has_waiting() && ready()) {
        const ssize_t bytes = ::write(fd_, buffer_.data() + begin_, next_write_bytes());
        if (bytes >= 0) {
            consume(static_cast<std::size_t>(bytes));
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            return fail(errno);
        }
    }
    return std::nullopt;
}

void Console::pass(std::string_view bytes) {
    if (!failed_) buffer_.append(bytes);
}

void Console::end_line() {
    if (!line_open()) return;
    buffer_.push_back('\n');
    if (line_owner_ != nullptr) line_owner_->interrupted();
    line_owner_ = nullptr;
    line_open_ = false;
}

void Console::forget(const LinePrefixer& source) {
    if (line_owner_ == &source) line_owner_ = nullptr;
}

}  // namespace cpprun
