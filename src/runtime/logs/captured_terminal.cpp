// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/logs/captured_terminal.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace cpprun {
namespace {

constexpr int wanted_pipe_bytes = 1 << 20;

Error cannot_open(int error) {
    return failure("cannot open a pseudo-terminal for a worker's stderr (--capture=pty): " + error_text(error));
}

}  // namespace

Result<OpenedTerminal> open_terminal(const TerminalSize& size) {
    OpenedTerminal opened;
    opened.launcher_side.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    if (!opened.launcher_side) return cannot_open(errno);
    const int master = opened.launcher_side.get();
    if (::grantpt(master) != 0 || ::unlockpt(master) != 0) return cannot_open(errno);
    // By the descriptor and not by its name, which belongs to another mount in some containers.
    opened.worker_side.reset(::ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!opened.worker_side) return cannot_open(errno);
    termios settings{};
    if (::tcgetattr(opened.worker_side.get(), &settings) != 0) return cannot_open(errno);
    ::cfmakeraw(&settings);
    if (::tcsetattr(opened.worker_side.get(), TCSANOW, &settings) != 0) return cannot_open(errno);
    set_size(master, size);
    return opened;
}

Result<OpenedTerminal> open_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return failure("cannot open a pipe for a worker's stderr (--capture=pipe): " + error_text(errno));
    OpenedTerminal opened;
    opened.launcher_side.reset(ends[0]);
    opened.worker_side.reset(ends[1]);
    // The worker's end blocks as ever: they are two open files.
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ::fcntl(ends[0], F_SETPIPE_SZ, wanted_pipe_bytes);  // as far as this user may: the default of 64 KiB does too
    return opened;
}

void set_size(int launcher_side, const TerminalSize& size) {
    const winsize window{.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(launcher_side, TIOCSWINSZ, &window);
}

TerminalSize launchers_terminal_size() {
    for (const int fd : {STDERR_FILENO, STDOUT_FILENO, STDIN_FILENO}) {
        winsize window{};
        if (::ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0)
            return {window.ws_row, window.ws_col};
    }
    return {};
}

}  // namespace cpprun
