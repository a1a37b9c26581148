// SPDX-License-Identifier: BSD-3-Clause
#include "unit/cli/cli_reference.hpp"

#include "cli/flag_table.hpp"

#include <string_view>
#include <vector>

namespace cpprun {
namespace {

constexpr std::string_view introduction = R"(# The command line

This page is made from the option table in `src/cli/flag_table.cpp`, as is the manual page `cpprun.1`; a test compares
them. To write both anew after a change: `cmake --build --preset dev --target cpprun_cli_reference`, then
`build/dev/tests/unit/cli/cpprun_cli_reference > docs/cli.md` and the same with `man > docs/cpprun.1`.

    cpprun [options] SCRIPT [ARGS...]

## How it is read

- Options stand before SCRIPT. From SCRIPT on every byte belongs to the script, whatever it looks like.
- `--option value` and `--option=value` are the same; so are `-r 3`, `-r3` and `-r=3`. Short flags can be bundled:
  `-mr3` is `-m -r 3`. A value that begins with a dash needs the sign (`--role=-x`), unless it is a negative number or
  has a blank in it.
- Dashes and underscores within a long name are the same. torchrun's options may be shortened as long as it is clear
  which one is meant (`--nproc 8`); cpprun's own, marked *ours* below, are known by their full names only.
- `--` ends the options. A `--` directly behind SCRIPT is dropped, as torchrun does; all later ones reach the script.
- Of an option given more than once the last one counts; `--rdzv-conf`, `--no-restart-on` and
  `--free-restart-on` collect.
- The command line comes before the option's variable, and that before the default. A variable that is set but empty
  is an empty value. Variables of options without a value take a whole number: 0 is off, anything else on. They cannot
  be switched off on the command line.
- Numbers are written as in Python: blanks around them, a sign and single underscores (`1_000`) are allowed.
- In ARGS, and in SCRIPT unless `--no-python` is given, `${local_rank}` and `$local_rank` become the worker's local
  rank, and `$$` becomes `$`.
- A wrong value is one line on stderr and exit code 2, before anything is started. A program or interpreter that is not
  there is exit code 127, one that may not be executed 126.

## Completion

`source <(cpprun --print-completion bash)` completes options and their values in this shell; in `~/.bashrc` it does so
in every one. In zsh, after `compinit`: `source <(cpprun --print-completion zsh)`. It works for `torchrun` too where
that is a link to cpprun.

## Which Python

The workers' interpreter is the first of: `PYTHON_EXEC`; the one beside the `cpprun` (or the link to it) that was
called, when that lies in a virtual or conda environment; `python3` or `python` on `PATH`, when that lies in one; the
one in `$VIRTUAL_ENV`; in `$CONDA_PREFIX`; `python3` or `python` on `PATH`. One warning says so when these name
different environments. With `--no-python`, and for a SCRIPT that is a native executable file, none is needed.

## Other variables

`LOGLEVEL` (`CRITICAL`, `FATAL`, `ERROR`, `WARNING`, `WARN`, `INFO`, `DEBUG`, `NOTSET`; default `WARNING`),
`OMP_NUM_THREADS`, `PYTHON_EXEC`, `TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE`, `TORCHELASTIC_ENABLE_FILE_TIMER`,
`TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT`, `TORCH_ELASTIC_SHUTDOWN_TIMEOUT`, `TORCH_ELASTIC_WORKER_IDENTICAL` and
`TORCH_DISABLE_SHARE_RDZV_TCP_STORE` mean what they mean to torchrun. `MASTER_ADDR`, `MASTER_PORT`, `NODE_RANK`, `RANK`
and `WORLD_SIZE` are not read.

)";

std::vector<std::string_view> groups() {
    std::vector<std::string_view> found;
    for (const OptionSpec& spec : flag_table()) {
        bool known = false;
        for (const std::string_view group : found) known = known || group == spec.group;
        if (!known) found.push_back(spec.group);
    }
    return found;
}

/// A cell's text: a bar would end the cell.
std::string cell(std::string_view text) {
    std::string out;
    for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out;
}

std::string code(std::string_view text) {
    return text.empty() ? "" : "`" + cell(text) + "`";
}

std::string choices(const OptionSpec& spec) {
    std::string text;
    for (const char c : spec.choices) text += c == ',' ? std::string("`, `") : std::string(1, c);
    return text.empty() ? "" : " One of `" + text + "`.";
}

std::string row(const OptionSpec& spec) {
    std::string names = spec.letter != 0 ? std::string("`-") + spec.letter + "`, " : "";
    names += code(std::string(spec.dashed) + (spec.metavar.empty() ? "" : " " + std::string(spec.metavar)));
    if (spec.extension) names += " *ours*";
    return "| " + names + " | " + code(spec.variable) + " | " + code(spec.default_text) + " | " + cell(spec.help) +
           choices(spec) + " |\n";
}

}  // namespace

std::string cli_reference_page() {
    std::string page(introduction);
    page += "## Options\n";
    for (const std::string_view group : groups()) {
        page.append("\n### ").append(group).append(
            "\n\n| option | variable | default | meaning |\n|---|---|---|---|\n");
        for (const OptionSpec& spec : flag_table())
            if (spec.group == group) page += row(spec);
    }
    return page;
}

}  // namespace cpprun
