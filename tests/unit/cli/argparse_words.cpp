// SPDX-License-Identifier: BSD-3-Clause
// The grammar as a filter, for argparse_oracle.py: "--table" prints the options as JSON; otherwise each line of stdin
// is a JSON list of arguments and each line of stdout what split_words made of it.
#include "cli/argument_grammar.hpp"

#include <nlohmann/json.hpp>

#include <iostream>
#include <string>

namespace {

using nlohmann::json;

json table() {
    json rows = json::array();
    for (const cpprun::OptionSpec& spec : cpprun::flag_table()) {
        if (spec.extension) continue;
        json names = json::array();
        if (spec.letter != 0) names.push_back(std::string("-") + spec.letter);
        names.push_back(spec.dashed);
        if (!spec.underscored.empty()) names.push_back(spec.underscored);
        rows.push_back({{"names", names}, {"flag", spec.kind == cpprun::OptionKind::flag}});
    }
    return rows;
}

json answer(const std::vector<std::string>& arguments) {
    const auto words = cpprun::split_words(arguments);
    if (!words) return {{"ambiguous", words.error().message}};
    json uses = json::array();
    for (const cpprun::OptionUse& use : words.value().uses) uses.push_back({use.option->dashed, use.value});
    return {{"uses", uses},
            {"problem", words.value().problem ? json(words.value().problem->message) : json(nullptr)},
            {"unrecognized", words.value().unrecognized},
            {"script", words.value().script ? json(*words.value().script) : json(nullptr)},
            {"args", words.value().args}};
}

}  // namespace

int main(int argc, char**) {
    if (argc > 1) {
        std::cout << table().dump() << "\n";
        return 0;
    }
    for (std::string line; std::getline(std::cin, line);)
        std::cout << answer(json::parse(line).get<std::vector<std::string>>()).dump() << "\n";
}
