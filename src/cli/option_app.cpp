// SPDX-License-Identifier: BSD-3-Clause
#include "cli/option_app.hpp"

#include "cli/python_repr.hpp"
#include "cli/wrong_value.hpp"
#include "core/text/python_number.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <sstream>

namespace cpprun {
namespace {

constexpr std::size_t help_column = 30;
constexpr std::size_t help_width = 100;

std::string cli11_names(const OptionSpec& spec) {
    std::string names;
    if (spec.letter != 0) names = std::string("-") + spec.letter + ",";
    names += spec.dashed;
    if (!spec.underscored.empty()) names.append(",").append(spec.underscored);
    return names;
}

/// Checks a text as Python would and rewrites it in a form that CLI11 reads; the result is a complaint or empty, as
/// CLI::Validator wants it.
std::string normalise_int(std::string& text) {
    const auto value = parse_python_int(text);
    if (!value) return "invalid int value: " + python_repr(text);
    text = std::to_string(*value);
    return {};
}

std::string normalise_float(std::string& text) {
    const auto value = parse_python_float(text);
    if (!value) return "invalid float value: " + python_repr(text);
    std::ostringstream exact;
    exact.precision(std::numeric_limits<double>::max_digits10);
    exact << *value;
    text = exact.str();
    return {};
}

std::string check_choice(const OptionSpec& spec, const std::string& text) {
    if (is_choice(spec, text)) return {};
    return "invalid choice: " + python_repr(text) + " (choose from " + quoted_choices(spec) + ")";
}

/// Adds the option of one row to `app`, bound to `setting`. `complaint` receives what its check says, as the text of
/// CLI11's exception carries a name that the user did not write.
CLI::Option* add_option(CLI::App& app, const OptionSpec& spec, Setting& setting, std::string& complaint) {
    const std::string names = cli11_names(spec);
    const std::string help(spec.help);
    const auto keep = [&complaint](std::string problem) { return complaint = std::move(problem); };
    switch (spec.kind) {
        case OptionKind::flag:
            return app.add_flag(names, help);
        case OptionKind::text:
            return app.add_option(names, setting.text, help);
        case OptionKind::integer:
            return app.add_option(names, setting.integer, help)
                ->transform(CLI::Validator([keep](std::string& text) { return keep(normalise_int(text)); }, {}));
        case OptionKind::real:
            return app.add_option(names, setting.real, help)
                ->transform(CLI::Validator([keep](std::string& text) { return keep(normalise_float(text)); }, {}));
        case OptionKind::choice:
            return app.add_option(names, setting.text, help)
                ->check(
                    CLI::Validator([keep, &spec](std::string& text) { return keep(check_choice(spec, text)); }, {}));
    }
    return nullptr;
}

/// The lines of `text`, broken at blanks so that none is wider than `width`.
std::string wrapped(std::string_view text, std::size_t width, const std::string& indent) {
    std::istringstream words{std::string(text)};
    std::string out;
    std::size_t column = 0;
    for (std::string word; words >> word;) {
        if (column > 0 && column + 1 + word.size() > width) {
            out.append("\n").append(indent);
            column = 0;
        }
        if (column > 0) out += ' ';
        out += word;
        column += word.size() + (column > 0 ? 1 : 0);
    }
    return out;
}

std::string left_column(const OptionSpec& spec) {
    std::string left = spec.letter != 0 ? std::string("  -") + spec.letter + ", " : "  ";
    left += spec.dashed;
    if (!spec.metavar.empty()) left.append(" ").append(spec.metavar);
    return left;
}

std::string full_help(const OptionSpec& spec) {
    std::string text(spec.help);
    if (!spec.choices.empty()) text.append(" One of ").append(quoted_choices(spec)).append(".");
    if (!spec.default_text.empty()) text.append(" Default: ").append(spec.default_text).append(".");
    if (!spec.variable.empty()) text.append(" [").append(spec.variable).append("]");
    return text;
}

/// torchrun's usage line and one block for each option, wide enough for our long names.
class HelpFormatter : public CLI::Formatter {
  public:
    std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
        return "usage: " + name + " [options] SCRIPT [ARGS...]\n";
    }

    std::string make_option(const CLI::Option* cli_option, bool /*positional*/) const override {
        const std::string name = "--" + cli_option->get_lnames().front();
        const OptionSpec& spec = find_row(name);
        std::string left = left_column(spec);
        const std::string indent(help_column, ' ');
        left += left.size() + 2 > help_column ? "\n" + indent : std::string(help_column - left.size(), ' ');
        return left + wrapped(full_help(spec), help_width - help_column, indent) + "\n";
    }

  private:
    static const OptionSpec& find_row(const std::string& name) {
        for (const OptionSpec& spec : flag_table())
            if (spec.dashed == name) return spec;
        return option(OptionId::help);
    }
};

constexpr std::string_view help_description =
    "Starts the workers of a distributed training job on this node, watches them and restarts them when they fail.";

constexpr std::string_view help_footer =
    "Options stand before SCRIPT and may be shortened as long as they stay unambiguous; dashes and underscores within "
    "a name are the same. From SCRIPT on everything belongs to the script. A variable in square brackets gives the "
    "option's value when the option is not on the command line; variables of options without a value take 0 or 1.";

}  // namespace

Result<void> read_value(const OptionSpec& spec, std::string_view text, Source source, Setting& setting) {
    setting.source = source;
    setting.text = std::string(text);
    if (spec.kind == OptionKind::flag) {
        setting.integer = 1;
        return boost::outcome_v2::success();
    }
    // CLI11 gives "{}" and "[…]" a meaning of their own, and a text needs no conversion.
    if (spec.kind == OptionKind::text) return boost::outcome_v2::success();
    CLI::App app;
    std::string complaint;
    try {
        CLI::Option* cli_option = add_option(app, spec, setting, complaint);
        cli_option->add_result(setting.text)->run_callback();
    } catch (const CLI::Error&) {
        if (complaint.empty()) complaint = "invalid value: " + python_repr(text);
        return wrong_value(spec, source, complaint);
    }
    return boost::outcome_v2::success();
}

std::string help_text(std::string_view program_name) {
    CLI::App app{wrapped(help_description, help_width, ""), std::string(program_name)};
    app.formatter(std::make_shared<HelpFormatter>());
    app.set_help_flag();
    app.footer(wrapped(help_footer, help_width, ""));
    RawArgs unused;
    std::string complaint;
    for (const OptionSpec& spec : flag_table())
        add_option(app, spec, unused[spec.id], complaint)->group(std::string(spec.group));
    std::string help = app.help();
    // CLI11 leaves two empty lines between groups.
    for (std::size_t at = help.find("\n\n\n"); at != std::string::npos; at = help.find("\n\n\n", at)) help.erase(at, 1);
    // CLI11 puts the description above the usage line; tools look for "usage:" as the first word.
    const std::size_t usage = help.find("usage: ");
    const std::size_t line_end = help.find('\n', usage);
    return help.substr(usage, line_end + 1 - usage) + "\n" + help.substr(0, usage) + help.substr(line_end + 1);
}

}  // namespace cpprun
