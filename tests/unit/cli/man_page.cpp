// SPDX-License-Identifier: BSD-3-Clause
#include "unit/cli/man_page.hpp"

#include "cli/flag_table.hpp"

#include <string_view>

namespace cpprun {
namespace {

constexpr std::string_view head = R"(.\" SPDX-License-Identifier: BSD-3-Clause
.\" Made from the option table in src/cli/flag_table.cpp; a test compares the two. To write it anew:
.\" cpprun_cli_reference man > docs/cpprun.1
.TH CPPRUN 1 "" cpprun "User Commands"
.SH NAME
cpprun \- start, watch, restart and stop the workers of a distributed training job
.SH SYNOPSIS
.B cpprun
.RI [ options ] " SCRIPT " [ ARGS... ]
.SH DESCRIPTION
A native drop\-in for PyTorch's
.BR torchrun :
the same options and variables, the same environment for the workers, the same store, log files and failure table.
.PP
Options stand before SCRIPT; from SCRIPT on every byte belongs to the script.
Dashes and underscores within a long name are the same, and torchrun's options may be shortened as long as it is clear
which one is meant.
The command line comes before an option's variable, and that before the default.
In ARGS, and in SCRIPT unless
.B \-\-no\-python
is given, ${local_rank} becomes the worker's local rank.
.PP
A SCRIPT that is a native program is executed as it is; any other is run by Python.
.SH OPTIONS
Those marked with an asterisk are cpprun's own and must be written in full.
)";

constexpr std::string_view tail = R"(.SH SHELL COMPLETION
.B cpprun \-\-print\-completion bash
prints a completion script; so do
.B zsh
and
.BR tcsh .
.SH EXIT STATUS
.TP
.B 0
Every worker exited with 0.
.TP
.B 1
A worker failed and no restarts were left, a signal ended the run, or a port, file or limit stood in the way.
.TP
.B 2
The command line or a variable is wrong, or the script does not exist. Nothing was started.
.TP
.BR 126 ", " 127
The program or the interpreter may not be executed, or is not there.
.PP
With
.B \-\-exit\-code=worker
the root cause's own code is passed on; 128+n for signal n.
.SH SEE ALSO
.BR python3 (1)
)";

/// Text in which nothing is a request or an escape of roff.
std::string roff(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if ((c == '.' || c == '\'') && out.empty()) out += "\\&";
        if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else {
            out += c;
        }
    }
    return out;
}

std::string entry(const OptionSpec& spec) {
    std::string text = ".TP\n";
    if (spec.letter != 0) text += std::string("\\fB\\-") + spec.letter + "\\fR, ";
    text += "\\fB" + roff(spec.dashed) + "\\fR";
    if (!spec.metavar.empty()) text += " \\fI" + roff(spec.metavar) + "\\fR";
    text += spec.extension ? " *\n" : "\n";
    text += roff(spec.help) + "\n";
    std::string choices;
    for (const char c : spec.choices) choices += c == ',' ? std::string(", ") : std::string(1, c);
    if (!choices.empty()) text += "One of " + roff(choices) + ".\n";
    if (!spec.default_text.empty()) text += "Default: " + roff(spec.default_text) + ".\n";
    if (!spec.variable.empty()) text += "Variable: " + roff(spec.variable) + ".\n";
    return text;
}

}  // namespace

std::string man_page() {
    std::string page(head);
    for (const OptionSpec& first : flag_table()) {
        // Each group once, where the table names it for the first time.
        bool is_first = true;
        for (const OptionSpec& before : flag_table()) {
            if (&before == &first) break;
            is_first = is_first && before.group != first.group;
        }
        if (!is_first) continue;
        page += ".SS " + roff(first.group) + "\n";
        for (const OptionSpec& spec : flag_table())
            if (spec.group == first.group) page += entry(spec);
    }
    page += tail;
    return page;
}

}  // namespace cpprun
