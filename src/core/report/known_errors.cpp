// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/known_errors.hpp"

#include "core/agent/signal_names.hpp"

#include <algorithm>
#include <array>
#include <csignal>

namespace cpprun {
namespace {

// What is more telling stands first.
constexpr std::array known_errors{
    KnownError{"CUDA out of memory", false, "the device's memory is full"},
    KnownError{"torch.OutOfMemoryError", false, "the device's memory is full"},
    KnownError{"DefaultCPUAllocator: can't allocate memory", false, "the machine's memory is full"},
    KnownError{"ModuleNotFoundError", false, "the workers' Python lacks a module"},
    KnownError{"error: unrecognized arguments", false, "the script refused its arguments"},
    KnownError{"error: the following arguments are required", false, "the script refused its arguments"},
    KnownError{"Connection closed by peer", true, "a peer of its collective had ended"},
    KnownError{"Connection reset by peer", true, "a peer of its collective had ended"},
    KnownError{"Connection was likely closed", true, "a peer of its collective, or the store, had ended"},
    KnownError{"Broken pipe", true, "a peer of its collective had ended"},
    KnownError{"ncclRemoteError", true, "NCCL: a peer of its collective had ended or could not be reached"},
    KnownError{"remote process exited or there was a network error", true, "NCCL: a peer had ended"},
    KnownError{"Watchdog caught collective operation timeout", true,
               "its collective waited for a peer that did not come"},
    KnownError{"Application timeout caused pair closure", true, "its collective waited for a peer that did not come"},
    KnownError{"Timed out waiting", true, "it waited for a peer that did not come"},
    KnownError{"wait timeout after", true, "it waited for a key of the store that nobody wrote"},
    KnownError{"Socket Timeout", true, "it waited for a peer or the store in vain"},
    KnownError{"The client socket has timed out", true, "it could not reach the store"},
    KnownError{"The client socket has failed to connect", true, "it could not reach the store"},
    KnownError{"store->get('0') got error", true, "it waited for a peer that did not come"},
};

struct Meaning {
    int value;
    std::string_view text;
};

constexpr std::array code_meanings{
    Meaning{1, "an exception that nobody caught, or the program's own choice"},
    Meaning{2, "refused arguments, or the program's own choice"},
    Meaning{126, "a command could not be executed"},
    Meaning{127, "a command or library was not found"},
    Meaning{134, "a child of it aborted (128 + SIGABRT)"},
    Meaning{137, "a child of it was killed (128 + SIGKILL)"},
    Meaning{139, "a child of it crashed (128 + SIGSEGV)"},
    Meaning{143, "a child of it was stopped (128 + SIGTERM)"},
};

constexpr std::array signal_meanings{
    Meaning{SIGABRT, "the program gave itself up: a failed assertion, a C++ exception, or a watchdog"},
    Meaning{SIGBUS, "memory that is not there: often a full /dev/shm, or a file that was cut short"},
    Meaning{SIGFPE, "an arithmetic fault in native code"},
    Meaning{SIGILL, "an instruction that this processor does not have: a build for another one"},
    Meaning{SIGKILL, "killed from outside: the kernel for want of memory, a batch system, or a person"},
    Meaning{SIGSEGV, "a fault in native code: an extension, a library or a driver"},
    Meaning{SIGTERM, "asked to stop by somebody other than the launcher"},
    Meaning{SIGINT, "interrupted by somebody other than the launcher"},
    Meaning{SIGXCPU, "its limit of processor time (ulimit -t)"},
    Meaning{SIGXFSZ, "its limit of file size (ulimit -f)"},
    Meaning{SIGSYS, "a system call that is forbidden here (seccomp)"},
    Meaning{SIGPIPE, "it wrote to a pipe that nobody reads"},
};

}  // namespace

const KnownError* find_known_error(std::string_view words) {
    const auto found = std::find_if(known_errors.begin(), known_errors.end(), [&](const KnownError& known) {
        return words.find(known.text) != std::string_view::npos;
    });
    return found == known_errors.end() ? nullptr : &*found;
}

std::string usual_meaning(const ExitStatus& status) {
    const auto look = [&](const auto& table) {
        const auto found =
            std::find_if(table.begin(), table.end(), [&](const Meaning& one) { return one.value == status.value; });
        return found == table.end() ? std::string() : std::string(found->text);
    };
    return status.signaled ? look(signal_meanings) : look(code_meanings);
}

std::string status_text(const ExitStatus& status) {
    if (!status.signaled) return "exit code " + std::to_string(status.value);
    const std::string name = signal_name(status.value);
    if (name == "<N/A>") return "signal " + std::to_string(status.value);
    return name + " (" + std::to_string(status.value) + ")";
}

}  // namespace cpprun
