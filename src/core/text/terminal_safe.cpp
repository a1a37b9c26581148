// SPDX-License-Identifier: BSD-3-Clause
#include "core/text/terminal_safe.hpp"

namespace cpprun {
namespace {

bool is_control(unsigned char c) {
    return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

// U+0080..U+009F in UTF-8: terminals take U+009B for ESC [.
bool is_c1(std::string_view text, std::size_t at) {
    return static_cast<unsigned char>(text[at]) == 0xc2 && at + 1 < text.size() &&
           static_cast<unsigned char>(text[at + 1]) >= 0x80 && static_cast<unsigned char>(text[at + 1]) < 0xa0;
}

}  // namespace

std::string terminal_safe(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (is_c1(text, at)) {
            ++at;
        } else if (!is_control(static_cast<unsigned char>(text[at]))) {
            out += text[at];
        }
    }
    return out;
}

}  // namespace cpprun
