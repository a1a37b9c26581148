// SPDX-License-Identifier: BSD-3-Clause
#include "cli/argument_grammar.hpp"

#include "cli/python_repr.hpp"

#include <algorithm>
#include <string_view>

namespace cpprun {
namespace {

/// An option as a word names it, with the value that is part of the word: "--role=x", "-r3", "-mr3".
struct Named {
    const OptionSpec* option = nullptr;   ///< none: an unknown option
    std::optional<std::string> attached;  ///< text within the word after the name
    bool by_letter = false;
};

/// What one word is by itself, before its neighbours are known.
struct WordKind {
    bool is_option = false;
    Named named;
};

const OptionSpec* find_letter(char letter) {
    for (const OptionSpec& spec : flag_table())
        if (spec.letter != 0 && spec.letter == letter) return &spec;
    return nullptr;
}

const OptionSpec* find_long(std::string_view name) {
    for (const OptionSpec& spec : flag_table())
        if (name == spec.dashed || (!spec.underscored.empty() && name == spec.underscored)) return &spec;
    return nullptr;
}

/// `name` is "--x_y-z"; finds the option that it is when dashes and underscores count as equal.
const OptionSpec* find_mixed(std::string_view name) {
    std::string dashed(name);
    std::replace(dashed.begin() + 2, dashed.end(), '_', '-');
    return find_long(dashed);
}

bool is_long(std::string_view word) {
    return word.size() > 2 && word.starts_with("--");
}

/// Splits at the first "=": the name, and the rest if there is a "=".
std::pair<std::string_view, std::optional<std::string>> split_at_equals(std::string_view word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return {word, std::nullopt};
    return {word.substr(0, equals), std::string(word.substr(equals + 1))};
}

struct PrefixMatches {
    const OptionSpec* only = nullptr;  ///< set when all matches belong to one option
    bool ambiguous = false;
    std::string names;  ///< all spellings that match, for the message
};

void add_match(PrefixMatches& matches, const OptionSpec& spec, std::string_view spelling) {
    if (matches.names.empty()) matches.only = &spec;
    if (matches.only != &spec) matches.ambiguous = true;
    if (!matches.names.empty()) matches.names += ", ";
    matches.names += spelling;
}

PrefixMatches find_prefix(std::string_view prefix) {
    PrefixMatches matches;
    for (const OptionSpec& spec : flag_table()) {
        if (spec.extension) continue;
        if (spec.dashed.starts_with(prefix)) add_match(matches, spec, spec.dashed);
        if (!spec.underscored.empty() && spec.underscored.starts_with(prefix))
            add_match(matches, spec, spec.underscored);
    }
    return matches;
}

/// Whether argparse takes a word for a negative number: "-1", "-1.5", "-.5".
bool looks_like_negative_number(std::string_view word) {
    constexpr std::string_view digits = "0123456789";
    word.remove_prefix(1);
    const std::size_t point = std::min(word.find_first_not_of(digits), word.size());
    if (point == word.size()) return !word.empty();
    const std::string_view fraction = word.substr(point + 1);
    return word[point] == '.' && !fraction.empty() && fraction.find_first_not_of(digits) == std::string_view::npos;
}

WordKind option_word(const OptionSpec* spec, std::optional<std::string> attached, bool by_letter) {
    return {.is_option = true, .named = {spec, std::move(attached), by_letter}};
}

/// A word that names no option: a plain word if it is a negative number or has a blank in it.
WordKind unnamed(std::string_view word) {
    if (looks_like_negative_number(word) || word.find(' ') != std::string_view::npos) return {};
    return option_word(nullptr, std::nullopt, false);
}

Result<WordKind> classify_long(const std::string& word) {
    auto [name, attached] = split_at_equals(word);
    if (const OptionSpec* whole = find_long(word)) return option_word(whole, std::nullopt, false);
    if (const OptionSpec* exact = find_long(name)) return option_word(exact, std::move(attached), false);
    const PrefixMatches matches = find_prefix(name);
    if (matches.ambiguous) return usage_error("ambiguous option: " + word + " could match " + matches.names);
    if (matches.only != nullptr) return option_word(matches.only, std::move(attached), false);
    if (const OptionSpec* mixed = name.size() > 2 ? find_mixed(name) : nullptr)
        return option_word(mixed, std::move(attached), false);
    return unnamed(word);
}

WordKind classify_short(const std::string& word) {
    const OptionSpec* spec = find_letter(word[1]);
    if (spec == nullptr) return unnamed(word);
    if (word.size() == 2) return option_word(spec, std::nullopt, true);
    const bool after_equals = word[2] == '=';
    return option_word(spec, word.substr(after_equals ? 3 : 2), true);
}

/// `word` is not "--". Error: an ambiguous abbreviation.
Result<WordKind> classify(const std::string& word) {
    if (word.size() < 2 || word.front() != '-') return WordKind{};
    if (is_long(word)) return classify_long(word);
    return classify_short(word);
}

Error ignored_argument(const OptionSpec& spec, std::string_view attached) {
    return usage_error("argument " + spellings(spec) + ": ignored explicit argument " + python_repr(attached));
}

/// Walks over the words before SCRIPT.
class Walk {
  public:
    explicit Walk(std::span<const std::string> arguments) : arguments_(arguments) {}

    Result<Words> run() {
        while (at_ < arguments_.size() && arguments_[at_] != "--") {
            BOOST_OUTCOME_TRY(const WordKind kind, classify(arguments_[at_]));
            if (!kind.is_option) break;
            ++at_;
            if (kind.named.option == nullptr) {
                words_.unrecognized.push_back(arguments_[at_ - 1]);
            } else {
                BOOST_OUTCOME_TRY(take_option(kind.named));
            }
        }
        take_script();
        return std::move(words_);
    }

  private:
    /// Only the first problem counts; the walk goes on, as an ambiguous abbreviation further on would come before it.
    void refuse(Error problem) {
        if (!words_.problem) words_.problem = std::move(problem);
    }

    Result<void> take_option(Named named) {
        std::vector<OptionUse> bundle;
        while (named.option->kind == OptionKind::flag && named.by_letter && named.attached &&
               !named.attached->empty()) {
            const OptionSpec* next = find_letter(named.attached->front());
            if (next == nullptr) {
                refuse(ignored_argument(*named.option, *named.attached));
                return boost::outcome_v2::success();
            }
            bundle.push_back({named.option, {}});
            const std::string rest = named.attached->substr(1);
            named = {next, rest.empty() ? std::nullopt : std::optional(rest), true};
        }
        BOOST_OUTCOME_TRY(const bool complete, take_value(named));
        if (!complete) return boost::outcome_v2::success();
        bundle.push_back({named.option, named.attached.value_or("")});
        if (!words_.problem) std::move(bundle.begin(), bundle.end(), std::back_inserter(words_.uses));
        return boost::outcome_v2::success();
    }

    /// Fills in `named.attached` from the next word where a value is needed; false when that is refused.
    Result<bool> take_value(Named& named) {
        if (named.option->kind == OptionKind::flag) {
            if (named.attached) refuse(ignored_argument(*named.option, *named.attached));
            return !named.attached.has_value();
        }
        if (named.attached) return true;
        BOOST_OUTCOME_TRY(const bool available, next_is_value());
        if (available) {
            named.attached = arguments_[at_++];
        } else {
            refuse(usage_error("argument " + spellings(*named.option) + ": expected one argument"));
        }
        return available;
    }

    Result<bool> next_is_value() const {
        if (at_ >= arguments_.size() || arguments_[at_] == "--") return false;
        BOOST_OUTCOME_TRY(const WordKind kind, classify(arguments_[at_]));
        return !kind.is_option;
    }

    void take_script() {
        if (at_ < arguments_.size() && arguments_[at_] == "--") {
            ++at_;
            take_positionals(false);
        } else {
            take_positionals(true);
        }
    }

    /// argparse drops one "--": the first of the command line, if that stands before or directly after SCRIPT.
    void take_positionals(bool drop_next) {
        if (at_ >= arguments_.size()) return;
        words_.script = arguments_[at_++];
        if (drop_next && at_ < arguments_.size() && arguments_[at_] == "--") ++at_;
        words_.args.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(at_), arguments_.end());
    }

    std::span<const std::string> arguments_;
    std::size_t at_ = 0;
    Words words_;
};

}  // namespace

Result<Words> split_words(std::span<const std::string> arguments) {
    return Walk(arguments).run();
}

}  // namespace cpprun
