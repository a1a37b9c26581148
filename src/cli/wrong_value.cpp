// SPDX-License-Identifier: BSD-3-Clause
#include "cli/wrong_value.hpp"

#include "cli/python_repr.hpp"

namespace cpprun {
namespace {

/// Calls `visit` with each word of a comma-separated list.
template <class Visitor>
void for_each_choice(std::string_view choices, Visitor visit) {
    while (!choices.empty()) {
        const std::size_t comma = std::min(choices.find(','), choices.size());
        visit(choices.substr(0, comma));
        choices.remove_prefix(std::min(comma + 1, choices.size()));
    }
}

}  // namespace

std::string quoted_choices(const OptionSpec& spec) {
    std::string list;
    for_each_choice(spec.choices, [&](std::string_view choice) {
        if (!list.empty()) list += ", ";
        list += python_repr(choice);
    });
    return list;
}

bool is_choice(const OptionSpec& spec, std::string_view word) {
    bool found = false;
    for_each_choice(spec.choices, [&](std::string_view choice) { found = found || choice == word; });
    return found;
}

Error wrong_value(const OptionSpec& spec, Source source, std::string_view problem) {
    std::string message = "argument " + spellings(spec) + ": ";
    message += problem;
    std::string remark;
    if (source == Source::environment) remark.append("set by ").append(spec.variable);
    if (!spec.accepted.empty()) remark.append(remark.empty() ? "" : "; ").append("accepted: ").append(spec.accepted);
    if (!remark.empty()) message.append(" (").append(remark).append(")");
    return usage_error(std::move(message));
}

Error invalid_value(const RawArgs& raw, OptionId id, std::string_view reason) {
    std::string problem = "invalid value: " + python_repr(raw[id].text);
    if (!reason.empty()) problem.append(": ").append(reason);
    return wrong_value(option(id), raw[id].source, problem);
}

}  // namespace cpprun
