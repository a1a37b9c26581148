// SPDX-License-Identifier: BSD-3-Clause
// The one owner of a descriptor of the store's: a socket, an epoll set, an event counter.
#pragma once

#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace cpprun {

class SocketFd {
  public:
    SocketFd() = default;
    explicit SocketFd(int fd) : fd_(fd) {}
    SocketFd(SocketFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    SocketFd& operator=(SocketFd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    SocketFd(const SocketFd&) = delete;
    SocketFd& operator=(const SocketFd&) = delete;
    ~SocketFd() { close(); }

    int get() const { return fd_; }
    bool valid() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    void close() {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }

  private:
    int fd_ = -1;
};

/// A socket option that can be done without: whether it was taken is not asked.
inline void set_option(int fd, int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
}

}  // namespace cpprun
