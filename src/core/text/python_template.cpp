// SPDX-License-Identifier: BSD-3-Clause
#include "core/text/python_template.hpp"

namespace cpprun {
namespace {

bool starts_name(char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool continues_name(char c) {
    return starts_name(c) || (c >= '0' && c <= '9');
}

std::size_t name_end(std::string_view text, std::size_t begin) {
    if (begin >= text.size() || !starts_name(text[begin])) return begin;
    std::size_t end = begin;
    while (end < text.size() && continues_name(text[end])) ++end;
    return end;
}

}  // namespace

std::string safe_substitute(std::string_view text, const std::map<std::string, std::string, std::less<>>& values) {
    std::string out;
    out.reserve(text.size());
    std::size_t at = 0;
    while (at < text.size()) {
        if (text[at] != '$') {
            out += text[at++];
            continue;
        }
        if (at + 1 < text.size() && text[at + 1] == '$') {
            out += '$';
            at += 2;
            continue;
        }
        const bool braced = at + 1 < text.size() && text[at + 1] == '{';
        const std::size_t begin = at + (braced ? 2 : 1);
        const std::size_t end = name_end(text, begin);
        const bool closed = !braced || (end < text.size() && text[end] == '}');
        const auto value = end > begin && closed ? values.find(text.substr(begin, end - begin)) : values.end();
        if (value == values.end()) {
            out += text[at++];
            continue;
        }
        out += value->second;
        at = end + (braced ? 1 : 0);
    }
    return out;
}

}  // namespace cpprun
