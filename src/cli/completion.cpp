// SPDX-License-Identifier: BSD-3-Clause
#include "cli/completion.hpp"

#include "cli/flag_table.hpp"

#include <algorithm>
#include <vector>

namespace cpprun {
namespace {

/// Each spelling of `spec`, the letter first.
std::vector<std::string> words_of(const OptionSpec& spec) {
    std::vector<std::string> words;
    if (spec.letter != 0) words.push_back(std::string("-") + spec.letter);
    words.emplace_back(spec.dashed);
    if (!spec.underscored.empty()) words.emplace_back(spec.underscored);
    return words;
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
    std::string text;
    for (const std::string& word : words) text.append(text.empty() ? "" : separator).append(word);
    return text;
}

std::string choice_words(const OptionSpec& spec) {
    std::string words(spec.choices);
    std::replace(words.begin(), words.end(), ',', ' ');
    return words;
}

/// All options that take a value, as a pattern of alternatives.
std::string value_pattern() {
    std::vector<std::string> words;
    for (const OptionSpec& spec : flag_table())
        if (spec.kind != OptionKind::flag)
            for (std::string& word : words_of(spec)) words.push_back(std::move(word));
    return joined(words, "|");
}

/// Dashed spellings and letters only: a list with both spellings would show everything twice.
std::string offered_options() {
    std::vector<std::string> words;
    for (const OptionSpec& spec : flag_table()) {
        if (spec.letter != 0) words.push_back(std::string("-") + spec.letter);
        words.emplace_back(spec.dashed);
    }
    return joined(words, " ");
}

bool takes_path(OptionId id) {
    return id == OptionId::log_dir;
}

/// A program name as a word that any shell takes literally: other characters would end the command.
std::vector<std::string> command_names(std::string_view program_name) {
    std::vector<std::string> names{"cpprun"};
    const bool plain = std::all_of(program_name.begin(), program_name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
               c == '-' || c == '+';
    });
    if (plain && !program_name.empty() && program_name.front() != '-' && program_name != "cpprun")
        names.emplace_back(program_name);
    return names;
}

std::string bash_script(const std::vector<std::string>& commands) {
    std::string script = R"sh(_cpprun_complete() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} name='' i
    COMPREPLY=()
    # "--option=value" arrives as three words where "=" breaks words.
    if [[ $cur == '=' ]]; then name=$prev cur=''
    elif [[ $prev == '=' ]]; then name=${COMP_WORDS[COMP_CWORD-2]}
    elif ((COMP_CWORD > 1)); then name=$prev
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            --) break ;;
            )sh" + value_pattern() +
                         R"sh()
                i=$((i + 1))
                if [[ ${COMP_WORDS[i]} == '=' ]]; then i=$((i + 1)); fi ;;
            -*) ;;
            *) break ;;
        esac
    done
    if ((i < COMP_CWORD)); then COMPREPLY=($(compgen -f -- "$cur")); return; fi
    case $name in
)sh";
    for (const OptionSpec& spec : flag_table()) {
        if (spec.kind == OptionKind::flag) continue;
        const std::string action = !spec.choices.empty() ? "compgen -W '" + choice_words(spec) + "' -- \"$cur\""
                                   : takes_path(spec.id) ? "compgen -d -- \"$cur\""
                                                         : "";
        const std::string reply = action.empty() ? "return" : "COMPREPLY=($(" + action + ")); return";
        script += "        " + joined(words_of(spec), "|") + ") " + reply + " ;;\n";
    }
    script += "    esac\n    if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W '" + offered_options() +
              "' -- \"$cur\"))\n    else COMPREPLY=($(compgen -f -- \"$cur\"))\n    fi\n}\n"
              "complete -o filenames -F _cpprun_complete " +
              joined(commands, " ") + "\n";
    return script;
}

/// `text` within single quotes for _arguments, where brackets, colons and backslashes have a meaning.
std::string zsh_description(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return out;
}

std::string zsh_value(const OptionSpec& spec) {
    if (spec.kind == OptionKind::flag) return "";
    const std::string action = !spec.choices.empty() ? "(" + choice_words(spec) + ")"
                               : takes_path(spec.id) ? "_files -/"
                                                     : " ";
    return ":" + zsh_description(spec.metavar) + ":" + action;
}

std::string zsh_script(const std::vector<std::string>& commands) {
    std::string script = "#compdef " + joined(commands, " ") + "\n_cpprun() {\n    _arguments -S \\\n";
    for (const OptionSpec& spec : flag_table()) {
        for (const std::string& word : words_of(spec)) {
            const bool is_long = word.starts_with("--");
            const std::string mark = spec.kind == OptionKind::flag ? "" : is_long ? "=" : "+";
            script += "        '*" + word + mark + "[" + zsh_description(spec.help) + "]" + zsh_value(spec) + "' \\\n";
        }
    }
    script += "        '1:script:_files' '*::arguments:_files'\n}\n";
    // Both ways of use: as a file on fpath, where compinit has bound it, and evaluated by hand.
    script +=
        "if [[ $funcstack[1] == _cpprun ]]; then _cpprun \"$@\"\nelif (( $+functions[compdef] )); then compdef "
        "_cpprun " +
        joined(commands, " ") + "\nfi\n";
    return script;
}

/// tcsh takes one line for each command; "c" patterns complete the current word, "n" the one behind a given word.
std::string tcsh_script(const std::vector<std::string>& commands) {
    std::string rules;
    for (const OptionSpec& spec : flag_table()) {
        if (spec.kind == OptionKind::flag) continue;
        const std::string list = !spec.choices.empty() ? "(" + choice_words(spec) + ")"
                                 : takes_path(spec.id) ? "d"
                                                       : "x:" + std::string(spec.metavar);
        if (spec.choices.empty() && !takes_path(spec.id)) continue;
        for (const std::string& word : words_of(spec)) {
            rules += " 'c@" + word + "=@" + list + "@'";
            rules += " 'n@" + word + "@" + list + "@'";
        }
    }
    std::string long_names;
    std::string letters;
    for (const OptionSpec& spec : flag_table()) {
        long_names.append(long_names.empty() ? "" : " ").append(spec.dashed.substr(2));
        if (spec.letter != 0) letters.append(letters.empty() ? "" : " ").append(1, spec.letter);
    }
    rules += " 'c@--@(" + long_names + ")@' 'c@-@(" + letters + ")@' 'p@*@f@'";
    std::string script;
    for (const std::string& command : commands) script += "complete " + command + rules + "\n";
    return script;
}

}  // namespace

std::string completion_script(std::string_view shell, std::string_view program_name) {
    const std::vector<std::string> commands = command_names(program_name);
    if (shell == "zsh") return zsh_script(commands);
    if (shell == "tcsh") return tcsh_script(commands);
    return bash_script(commands);
}

}  // namespace cpprun
