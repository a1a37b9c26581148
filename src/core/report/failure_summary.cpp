// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/failure_summary.hpp"

#include "core/agent/signal_names.hpp"
#include "core/text/terminal_safe.hpp"

#include <algorithm>

namespace cpprun {
namespace {

constexpr std::size_t rule_width_max = 60;

std::size_t longest_line(std::string_view text) {
    std::size_t longest = 0;
    while (true) {
        const std::size_t end = text.find('\n');
        longest = std::max(longest, std::min(end, text.size()));
        if (end == std::string_view::npos) return longest;
        text.remove_prefix(end + 1);
    }
}

std::string indented(std::string_view text) {
    std::string out;
    for (const char c : text) {
        out += c;
        if (c == '\n') out += "  ";
    }
    return out;
}

std::string signal_suffix(const ExitStatus& status) {
    if (!status.signaled) return {};
    const std::string name = signal_name(status.value);
    return name == "<N/A>" ? std::string{} : " (" + name + ")";
}

std::string block(std::size_t index, const WorkerFailure& failure, const std::string& time, const std::string& host) {
    const bool dictionary = failure.record && failure.record->dictionary_form;
    const std::string message = terminal_safe(failure_message(failure));
    return "[" + std::to_string(index) + "]:" +                                                               //
           "\n  time      : " + time +                                                                        //
           "\n  host      : " + host +                                                                        //
           "\n  rank      : " + std::to_string(failure.global_rank) +                                         //
           " (local_rank: " + std::to_string(failure.local_rank) + ")" +                                      //
           "\n  exitcode  : " + std::to_string(failure.status.python_code()) +                                //
           " (pid: " + std::to_string(failure.pid) + ") " + signal_suffix(failure.status) +                   //
           "\n  error_file: " + (failure.error_file.empty() ? "<N/A>" : terminal_safe(failure.error_file)) +  //
           "\n  traceback : " + (dictionary ? indented(message) : message);
}

}  // namespace

std::size_t root_cause(const std::vector<WorkerFailure>& failures) {
    const auto root = std::min_element(failures.begin(), failures.end(),
                                       [](const auto& a, const auto& b) { return a.timestamp < b.timestamp; });
    return static_cast<std::size_t>(root - failures.begin());
}

std::string failure_message(const WorkerFailure& failure) {
    if (failure.record && !failure.record->traceback.empty()) return failure.record->traceback;
    if (failure.status.signaled)
        return "Signal " + std::to_string(failure.status.value) + " (" + signal_name(failure.status.value) +
               ") received by PID " + std::to_string(failure.pid);
    return "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html";
}

std::string failure_hint(const std::vector<WorkerFailure>& failures) {
    const auto refused = [](const WorkerFailure& failure) {
        return failure.after_stop_signal ||
               (failure.status == ExitStatus::exited(2) && failure.age && *failure.age <= refusal_time);
    };
    const auto by_itself = [](const WorkerFailure& failure) { return !failure.after_stop_signal; };
    if (!std::all_of(failures.begin(), failures.end(), refused) ||
        std::none_of(failures.begin(), failures.end(), by_itself))
        return {};
    return "exit code 2 right after the start: most likely the script refused its arguments, and said so on its stderr";
}

std::string failure_table(const std::string& title, const std::vector<WorkerFailure>& failures,
                          const std::vector<std::string>& times, const std::string& host) {
    const std::size_t root = root_cause(failures);
    const std::string heading = terminal_safe(title) + " FAILED";
    std::size_t width = longest_line(heading);
    std::string others;
    std::string root_block;
    for (std::size_t i = 0; i < failures.size(); ++i) {
        std::string text = block(i, failures[i], times[i], host);
        width = std::max(width, longest_line(text));
        if (i == root) {
            root_block = std::move(text);
        } else {
            others += text + "\n";
        }
    }
    if (others.empty()) others = "  <NO_OTHER_FAILURES>\n";
    width = std::min(width, rule_width_max);
    const std::string thick(width, '=');
    const std::string thin(width, '-');
    return thick + "\n" + heading + "\n" + thin + "\nFailures:\n" + others + thin +
           "\nRoot Cause (first observed failure):\n" + root_block + "\n" + thick;
}

}  // namespace cpprun
