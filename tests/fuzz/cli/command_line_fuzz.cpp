// SPDX-License-Identifier: BSD-3-Clause
// Arbitrary words through the grammar, numbers, endpoints and rendezvous settings, and what must hold of the result.
#include "cli/argument_grammar.hpp"
#include "cli/endpoint.hpp"
#include "cli/python_repr.hpp"
#include "cli/rdzv_conf.hpp"
#include "core/text/python_number.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void require(bool fact) {
    if (!fact) std::abort();
}

/// Words end at each byte 0, as they do in a process's argv.
std::vector<std::string> words_of(const std::string& input) {
    std::vector<std::string> words(1);
    for (const char c : input)
        if (c == '\0') {
            words.emplace_back();
        } else {
            words.back() += c;
        }
    return words;
}

/// Behind SCRIPT nothing is lost but one "--", so ARGS are the end of the command line.
void check_words(const std::vector<std::string>& arguments) {
    const auto words = cpprun::split_words(arguments);
    if (!words) return;
    const std::vector<std::string>& args = words.value().args;
    require(args.size() <= arguments.size());
    require(std::equal(args.rbegin(), args.rend(), arguments.rbegin()));
    for (const cpprun::OptionUse& use : words.value().uses) require(use.option != nullptr);
}

void check_texts(const std::string& input) {
    require(cpprun::python_repr(input).find('\n') == std::string::npos);
    cpprun::parse_python_int(input);
    cpprun::parse_python_float(input);
    const cpprun::Endpoint endpoint = cpprun::parse_endpoint(input);
    require(!endpoint.problem.empty() || !endpoint.host.empty());
    std::map<std::string, std::string> conf;
    if (cpprun::add_rdzv_conf(input, conf).empty()) cpprun::check_rdzv_conf(conf, cpprun::RendezvousKind::c10d);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string input(data, data + size);
    check_words(words_of(input));
    check_texts(input);
    return 0;
}
