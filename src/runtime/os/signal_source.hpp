// SPDX-License-Identifier: BSD-3-Clause
// Signals to the agent as events, from the first instant of the process.
#pragma once

#include "runtime/os/unique_fd.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <set>
#include <string>

namespace cpprun {

/// What the process was given by its parent, and what we made of it.
struct SignalInheritance {
    bool hangup_ignored = false;  ///< SIGHUP came ignored (nohup): it stays so, for us and for the workers
    std::set<int> blocked;        ///< signals that we hold back and read through a descriptor
};

/// Holds back the signals that end a process (TERM, INT, QUIT, HUP, USR1, USR2, ALRM and the real-time ones), so that
/// none is lost between here and SignalSource, and those that suspend and continue it (TSTP, CONT); makes INT, QUIT and
/// CHLD default again where a shell ignored them; ignores PIPE, and TTIN and TTOU, by which a terminal stops a
/// background process that uses it. As a container's first process it holds CHLD too. Call it first in main, before any
/// thread exists.
SignalInheritance hold_signals();

/// Holds back `signals` as well, before any thread exists. One that came ignored is heard then, but for SIGHUP.
void hold_also(SignalInheritance& held, const std::set<int>& signals);

/// Ends this process by `signo` with its default action; exits with 128+signo where that is not possible.
[[noreturn]] void die_by_signal(int signo);

/// One received signal.
struct ReceivedSignal {
    int signo = 0;
    std::string sender;          ///< "pid 12 (scancel, uid 0)" where the kernel says, else empty
    bool from_terminal = false;  ///< a key, as Ctrl+C, or the terminal's end
};

class SignalSource {
  public:
    /// Reads the signals of `held` on `io`'s thread and calls `receive` for each, in order, until destroyed.
    SignalSource(boost::asio::io_context& io, const SignalInheritance& held,
                 std::function<void(const ReceivedSignal&)> receive);

  private:
    void wait();

    boost::asio::posix::stream_descriptor descriptor_;
    std::function<void(const ReceivedSignal&)> receive_;
};

}  // namespace cpprun
