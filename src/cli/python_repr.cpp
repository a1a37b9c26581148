// SPDX-License-Identifier: BSD-3-Clause
#include "cli/python_repr.hpp"

namespace cpprun {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
    return static_cast<unsigned char>(text[at]);
}

/// Length of the well-formed UTF-8 character of more than one byte that begins at `at`; 0 if there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
    const unsigned char lead = byte_at(text, at);
    const std::size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                               : lead >= 0xe0 && lead <= 0xef ? 3
                               : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                              : 0;
    if (length == 0 || text.size() - at < length) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte_at(text, at + i) & 0xc0) != 0x80) return 0;
    const unsigned char second = byte_at(text, at + 1);
    const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    const bool outside = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
    return overlong || outside ? 0 : length;
}

void append_hex(std::string& out, std::string_view prefix, unsigned char byte) {
    constexpr std::string_view digits = "0123456789abcdef";
    out.append(prefix);
    out += digits[byte >> 4];
    out += digits[byte & 15];
}

/// Whether a two-byte character is one of the control characters U+0080 to U+009F, which a terminal obeys.
bool is_c1_control(std::string_view character) {
    return character.size() == 2 && byte_at(character, 0) == 0xc2 && byte_at(character, 1) < 0xa0;
}

void append_ascii(std::string& out, char c, char quote) {
    if (c == '\n') {
        out += "\\n";
    } else if (c == '\r') {
        out += "\\r";
    } else if (c == '\t') {
        out += "\\t";
    } else if (c == quote || c == '\\') {
        out += '\\';
        out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        append_hex(out, "\\x", static_cast<unsigned char>(c));
    } else {
        out += c;
    }
}

}  // namespace

std::string python_repr(std::string_view text) {
    const bool only_single = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
    const char quote = only_single ? '"' : '\'';
    std::string out(1, quote);
    for (std::size_t at = 0; at < text.size();) {
        const unsigned char byte = byte_at(text, at);
        const std::size_t length = byte < 0x80 ? 0 : utf8_length(text, at);
        if (byte < 0x80) {
            append_ascii(out, text[at], quote);
        } else if (length == 0) {
            append_hex(out, "\\udc", byte);
        } else if (is_c1_control(text.substr(at, length))) {
            append_hex(out, "\\x", byte_at(text, at + 1));
        } else {
            out.append(text.substr(at, length));
        }
        at += length == 0 ? 1 : length;
    }
    out += quote;
    return out;
}

std::string one_line(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    return text;
}

}  // namespace cpprun
