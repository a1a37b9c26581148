// SPDX-License-Identifier: BSD-3-Clause
// A name that the system's resolver is asked for. Nothing can stop a resolver, so it is asked on a thread of its own,
// which is left behind when nobody wants to wait for it any longer.
#pragma once

#include "runtime/store/address.hpp"
#include "runtime/store/socket_fd.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace cpprun {

class NameQuestion {
  public:
    /// Asks. The thread takes no signals: those are for the process's main thread. Where no thread or descriptor
    /// is to be had, the caller waits for the answer here, without a limit.
    static std::shared_ptr<NameQuestion> ask(std::string host);

    /// Readable once there is an answer; it is only to be waited for. Valid as long as there is none.
    int descriptor() const { return readable_.get(); }
    bool answered() const { return answered_.load(std::memory_order_acquire); }

    // Once answered.
    /// 0, or a number for gai_strerror.
    int error() const { return error_; }
    /// Without port.
    const std::vector<SocketAddress>& addresses() const { return addresses_; }

  private:
    explicit NameQuestion(std::string host);
    void look_up();

    std::string host_;
    SocketFd readable_;
    int error_ = 0;
    std::vector<SocketAddress> addresses_;
    std::atomic<bool> answered_{false};
};

}  // namespace cpprun
