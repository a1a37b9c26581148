// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/signal_names.hpp"

#include "core/text/whole_number.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace cpprun {
namespace {

using Row = std::pair<int, std::string_view>;

// Numbers of Linux. 34 and 64 are what glibc leaves to programs, so they are Python's SIGRTMIN and SIGRTMAX.
constexpr std::array<Row, 33> rows{{
    {SIGHUP, "SIGHUP"},       {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},   {SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"},
    {SIGABRT, "SIGABRT"},     {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},     {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"},
    {SIGSEGV, "SIGSEGV"},     {SIGUSR2, "SIGUSR2"}, {SIGPIPE, "SIGPIPE"},   {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},
    {SIGSTKFLT, "SIGSTKFLT"}, {SIGCHLD, "SIGCHLD"}, {SIGCONT, "SIGCONT"},   {SIGSTOP, "SIGSTOP"}, {SIGTSTP, "SIGTSTP"},
    {SIGTTIN, "SIGTTIN"},     {SIGTTOU, "SIGTTOU"}, {SIGURG, "SIGURG"},     {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"},
    {SIGVTALRM, "SIGVTALRM"}, {SIGPROF, "SIGPROF"}, {SIGWINCH, "SIGWINCH"}, {SIGIO, "SIGIO"},     {SIGPWR, "SIGPWR"},
    {SIGSYS, "SIGSYS"},       {34, "SIGRTMIN"},     {64, "SIGRTMAX"},
}};

constexpr std::array<Row, 4> aliases{{{SIGABRT, "SIGIOT"}, {SIGCHLD, "SIGCLD"}, {SIGIO, "SIGPOLL"}, {SIGIO, "SIGIO"}}};

}  // namespace

std::string signal_name(int signo) {
    const auto* row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.first == signo; });
    return row == rows.end() ? "<N/A>" : std::string(row->second);
}

std::string signal_label(int signo) {
    std::string name = signal_name(signo);
    return name.starts_with("SIG") ? name : std::to_string(signo);
}

std::optional<int> signal_number(std::string_view name) {
    for (const Row& row : rows)
        if (row.second == name) return row.first;
    for (const Row& row : aliases)
        if (row.second == name) return row.first;
    return std::nullopt;
}

std::optional<int> any_signal(std::string_view text) {
    if (const auto number = whole_number<int>(text)) return *number >= 1 && *number <= 64 ? number : std::nullopt;
    const auto number = signal_number(text);
    return number ? number : signal_number("SIG" + std::string(text));
}

std::set<int> handled_signals(const StopConfig& config) {
    std::set<int> numbers;
    for (const std::string& name : config.signals_to_handle)
        if (const auto number = signal_number(name)) numbers.insert(*number);
    return numbers;
}

}  // namespace cpprun
