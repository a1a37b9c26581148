// SPDX-License-Identifier: BSD-3-Clause
// --capture=pty: a worker's stderr is a pseudo-terminal of the launcher's, so that programs which look for a terminal
// find one. --capture=pipe: it is a pipe, which a shell can open anew by /dev/stderr without emptying it. What it holds
// is moved into a captured file, and copied on from there.
#pragma once

#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"

#include <cstdint>
#include <memory>

namespace cpprun {

struct TerminalSize {
    std::uint16_t rows = 24;
    std::uint16_t columns = 80;
};

/// The launcher's part. Once it is closed, writing to the worker's side is an error (EIO), and no signal unless the
/// worker has made it its controlling terminal.
struct CapturedTerminal {
    UniqueFd launcher_side;  ///< does not block; reading is an error (EIO) when nobody has the other side open
    UniqueFd file;           ///< writing end of the captured file
};

struct OpenedTerminal {
    UniqueFd worker_side;  ///< O_CLOEXEC
    UniqueFd launcher_side;
};

/// A pair whose bytes pass as they are: no echo, no \r before \n, no signal characters. It is nobody's controlling
/// terminal. Failure when the system has none left (kernel.pty.max).
Result<OpenedTerminal> open_terminal(const TerminalSize& size);

/// The same with a pipe in place of the terminal; the reading end does not block. Once it is closed, writing is
/// SIGPIPE. Failure when there are no descriptors left.
Result<OpenedTerminal> open_pipe();

/// Tells the programs that look; a worker hears of it only by a SIGWINCH of the caller's.
void set_size(int launcher_side, const TerminalSize& size);

/// The size of the terminal that is the launcher's stderr, stdout or stdin, the first that is one; else the default.
TerminalSize launchers_terminal_size();

}  // namespace cpprun
