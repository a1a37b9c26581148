// SPDX-License-Identifier: BSD-3-Clause
#include "cli/command_line.hpp"

#include "cli/argument_grammar.hpp"
#include "cli/completion.hpp"
#include "cli/config_json.hpp"
#include "cli/option_app.hpp"
#include "cli/pet_environment.hpp"
#include "cli/python_repr.hpp"
#include "core/text/python_number.hpp"

#include <cpprun/version.hpp>

#include <optional>

namespace cpprun {
namespace {

/// Every option at its default.
RawArgs default_args() {
    RawArgs raw;
    for (const OptionSpec& spec : flag_table()) {
        Setting& setting = raw[spec.id];
        setting.text = std::string(spec.default_text);
        if (spec.kind == OptionKind::integer) setting.integer = parse_python_int(spec.default_text).value_or(0);
        if (spec.kind == OptionKind::real) setting.real = parse_python_float(spec.default_text).value_or(0);
    }
    return raw;
}

/// The text that an option prints instead of launching, if it is such an option.
std::optional<TextOutput> printed_by(const OptionUse& use, const HostFacts& host) {
    switch (use.option->id) {
        case OptionId::help:
            return TextOutput{help_text(host.program_name)};
        case OptionId::version:
            return TextOutput{std::string("cpprun ") + version + "\n"};
        case OptionId::print_completion:
            return TextOutput{completion_script(use.value, host.program_name)};
        default:
            return std::nullopt;
    }
}

/// Carries out the options of the command line in order, up to one that prints.
Result<std::optional<TextOutput>> apply(const Words& words, const HostFacts& host, RawArgs& raw) {
    for (const OptionUse& use : words.uses) {
        BOOST_OUTCOME_TRY(read_value(*use.option, use.value, Source::command_line, raw[use.option->id]));
        if (use.option->collects) raw[use.option->id].values.push_back(use.value);
        if (auto output = printed_by(use, host)) return output;
    }
    if (words.problem) return *words.problem;
    return std::optional<TextOutput>{};
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text.append(text.empty() ? "" : " ").append(word);
    return text;
}

/// User case B24: an image whose settings all come from variables is started without a script.
Error missing_script(const RawArgs& raw) {
    std::string message = "the following arguments are required: training_script, training_script_args";
    const std::vector<std::string> variables = variables_that_decide(raw);
    if (!variables.empty()) message += " (options taken from variables: " + joined(variables) + ")";
    return usage_error(std::move(message));
}

Result<Invocation> parse(std::span<const std::string> arguments, const HostFacts& host, const FileLookup& files,
                         const ProbeDevices& probe_devices) {
    BOOST_OUTCOME_TRY(parse_log_level(host.environment));
    RawArgs raw = default_args();
    BOOST_OUTCOME_TRY(read_flag_variables(host.environment, raw));
    BOOST_OUTCOME_TRY(Words words, split_words(arguments));
    BOOST_OUTCOME_TRY(const std::optional<TextOutput> output, apply(words, host, raw));
    if (output) return *output;
    BOOST_OUTCOME_TRY(read_value_variables(host.environment, raw));
    const bool store_only = raw[OptionId::store_only].on();
    if (!words.script && !store_only) return missing_script(raw);
    if (words.script && store_only)
        return usage_error("argument --store-only/--store_only: takes no script, but got '" + *words.script + "'");
    if (!words.unrecognized.empty()) return usage_error("unrecognized arguments: " + joined(words.unrecognized));
    if (words.script) raw.script = std::move(*words.script);
    raw.args = std::move(words.args);
    BOOST_OUTCOME_TRY(LaunchRequest request, resolve_config(raw, host, files, probe_devices));
    if (raw[OptionId::print_config].on()) return TextOutput{config_json(request)};
    return request;
}

}  // namespace

Result<Invocation> parse_command_line(std::span<const std::string> arguments, const HostFacts& host,
                                      const FileLookup& files, const ProbeDevices& probe_devices) {
    auto parsed = parse(arguments, host, files, probe_devices);
    if (!parsed) {
        Error error = parsed.error();
        error.message = one_line(std::move(error.message));
        return error;
    }
    if (auto* request = std::get_if<LaunchRequest>(&parsed.value()))
        for (Notice& notice : request->notices) notice.text = one_line(std::move(notice.text));
    return parsed;
}

}  // namespace cpprun
