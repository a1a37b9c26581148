// SPDX-License-Identifier: BSD-3-Clause
#include "cli/pet_environment.hpp"

#include "cli/option_app.hpp"
#include "cli/python_repr.hpp"
#include "cli/wrong_value.hpp"
#include "core/text/python_number.hpp"

namespace cpprun {
namespace {

/// Options whose values hold "${" for good reason.
bool takes_any_text(OptionId id) {
    return id == OptionId::log_line_prefix_template || id == OptionId::duplicate_stdout_filters ||
           id == OptionId::duplicate_stderr_filters;
}

bool is_unfilled_template(std::string_view text) {
    return text.find("$(") != std::string_view::npos || text.find("${") != std::string_view::npos;
}

const std::string* find_variable(const Environment& environment, const OptionSpec& spec) {
    if (spec.variable.empty()) return nullptr;
    const auto found = environment.find(std::string(spec.variable));
    return found == environment.end() ? nullptr : &found->second;
}

Error unfilled_template(const OptionSpec& spec, const std::string& text) {
    return wrong_value(spec, Source::environment,
                       "invalid value: " + python_repr(text) + ": a template that was not filled in");
}

Result<void> read_flag(const OptionSpec& spec, const std::string& text, Setting& setting) {
    const auto value = parse_python_int(text);
    if (!value)
        return usage_error("argument " + spellings(spec) + ": invalid int value: " + python_repr(text) + " (set by " +
                           std::string(spec.variable) + "; accepted: 1 for on, 0 for off)");
    if (setting.source == Source::command_line) return boost::outcome_v2::success();
    setting = {.source = Source::environment, .text = text, .integer = *value != 0 ? 1 : 0};
    return boost::outcome_v2::success();
}

}  // namespace

Result<void> read_flag_variables(const Environment& environment, RawArgs& raw) {
    for (const OptionSpec& spec : flag_table()) {
        const std::string* text = spec.kind == OptionKind::flag ? find_variable(environment, spec) : nullptr;
        if (text == nullptr) continue;
        BOOST_OUTCOME_TRY(read_flag(spec, *text, raw[spec.id]));
    }
    return boost::outcome_v2::success();
}

Result<void> read_value_variables(const Environment& environment, RawArgs& raw) {
    for (const OptionSpec& spec : flag_table()) {
        if (spec.kind == OptionKind::flag || raw[spec.id].source == Source::command_line) continue;
        const std::string* text = find_variable(environment, spec);
        if (text == nullptr) continue;
        if (!takes_any_text(spec.id) && is_unfilled_template(*text)) return unfilled_template(spec, *text);
        BOOST_OUTCOME_TRY(read_value(spec, *text, Source::environment, raw[spec.id]));
        if (spec.collects) raw[spec.id].values = {*text};
    }
    return boost::outcome_v2::success();
}

std::vector<std::string> variables_that_decide(const RawArgs& raw) {
    std::vector<std::string> found;
    for (const OptionSpec& spec : flag_table())
        if (raw[spec.id].source == Source::environment)
            found.push_back(std::string(spec.variable) + "=" + python_repr(raw[spec.id].text));
    return found;
}

}  // namespace cpprun
