// SPDX-License-Identifier: BSD-3-Clause
#include "core/agent/exit_status.hpp"

#include "core/agent/signal_names.hpp"
#include "core/text/whole_number.hpp"

namespace cpprun {

std::string exit_status_text(ExitStatus status) {
    if (!status.signaled) return "exit:" + std::to_string(status.value);
    const std::string label = signal_label(status.value);
    return "signal:" + (label.starts_with("SIG") ? label.substr(3) : label);
}

std::optional<ExitStatus> parse_exit_status(std::string_view text) {
    constexpr std::string_view exit = "exit:";
    constexpr std::string_view signal = "signal:";
    if (text.starts_with(exit)) {
        const auto code = whole_number<int>(text.substr(exit.size()));
        if (!code || *code < 1 || *code > 255) return std::nullopt;
        return ExitStatus::exited(*code);
    }
    if (!text.starts_with(signal)) return std::nullopt;
    const auto number = any_signal(text.substr(signal.size()));
    if (!number) return std::nullopt;
    return ExitStatus::killed_by(*number);
}

}  // namespace cpprun
