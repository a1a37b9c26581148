// SPDX-License-Identifier: BSD-3-Clause
// How a process ended.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

/// Either an exit code (0..255) or the signal that killed the process.
struct ExitStatus {
    bool signaled = false;
    int value = 0;  ///< exit code, or signal number when `signaled`

    static constexpr ExitStatus exited(int code) { return {false, code}; }
    static constexpr ExitStatus killed_by(int signo) { return {true, signo}; }

    constexpr bool success() const { return !signaled && value == 0; }
    /// Python's convention, which torchrun's reports use: the code, or minus the signal's number.
    constexpr int python_code() const { return signaled ? -value : value; }
    /// The shell's convention: the code, or 128 plus the signal's number.
    constexpr int shell_code() const { return signaled ? 128 + value : value; }

    friend constexpr bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

/// "exit:3" or "signal:SEGV", as options name it.
std::string exit_status_text(ExitStatus status);

/// The reverse; codes from 1 to 255, signals by name with or without SIG, or by number. None: no such text.
std::optional<ExitStatus> parse_exit_status(std::string_view text);

}  // namespace cpprun
