// SPDX-License-Identifier: BSD-3-Clause
#include "core/text/base64.hpp"

#include <array>
#include <cstdint>

namespace cpprun {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t foreign = 0xff;

constexpr std::array<std::uint8_t, 256> values_of_characters() {
    std::array<std::uint8_t, 256> values{};
    values.fill(foreign);
    for (std::size_t i = 0; i < alphabet.size(); ++i) {
        values[static_cast<std::uint8_t>(alphabet[i])] = static_cast<std::uint8_t>(i);
    }
    return values;
}

constexpr auto character_values = values_of_characters();

char digit(std::uint32_t bits, unsigned shift) {
    return alphabet[(bits >> shift) & 63U];
}

std::uint32_t byte_at(std::string_view bytes, std::size_t at) {
    return static_cast<std::uint8_t>(bytes[at]);
}

}  // namespace

std::string encode_base64(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    std::size_t at = 0;
    for (; at + 3 <= bytes.size(); at += 3) {
        const auto bits = byte_at(bytes, at) << 16U | byte_at(bytes, at + 1) << 8U | byte_at(bytes, at + 2);
        for (const unsigned shift : {18U, 12U, 6U, 0U}) text.push_back(digit(bits, shift));
    }
    const std::size_t left = bytes.size() - at;
    if (left == 0) return text;
    const auto bits = byte_at(bytes, at) << 16U | (left == 2 ? byte_at(bytes, at + 1) << 8U : 0U);
    text.push_back(digit(bits, 18));
    text.push_back(digit(bits, 12));
    text.push_back(left == 2 ? digit(bits, 6) : '=');
    text.push_back('=');
    return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3 + 3);
    std::uint32_t bits = 0;
    unsigned digits = 0;   // of the current group of four
    unsigned padding = 0;  // how many `=` stand behind the last digit
    for (const char c : text) {
        if (c == '=') {
            if (digits >= 2 && digits + ++padding >= 4) return bytes;
            continue;
        }
        const std::uint8_t value = character_values[static_cast<std::uint8_t>(c)];
        if (value == foreign) continue;
        padding = 0;
        bits = bits << 6U | value;
        ++digits;
        if (digits > 1) bytes.push_back(static_cast<char>(bits >> (8 - 2 * digits)));
        if (digits == 4) digits = 0;
    }
    if (digits != 0) return std::nullopt;
    return bytes;
}

}  // namespace cpprun
