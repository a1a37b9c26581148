// SPDX-License-Identifier: BSD-3-Clause
#include "core/text/python_number.hpp"

#include "core/text/digits.hpp"

#include <charconv>
#include <limits>
#include <string>

namespace cpprun {
namespace {

bool is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}
/// Takes a sign off the front of `text`; true for a minus.
bool take_sign(std::string_view& text) {
    if (text.empty() || (text.front() != '+' && text.front() != '-')) return false;
    const bool negative = text.front() == '-';
    text.remove_prefix(1);
    return negative;
}

/// Takes digits with single underscores between them off the front of `text` and adds the digits to `digits`.
/// False when an underscore stands where none may.
bool take_digits(std::string_view& text, std::string& digits) {
    while (!text.empty()) {
        if (text.front() == '_') {
            if (digits.empty() || !is_digit(digits.back()) || text.size() < 2 || !is_digit(text[1])) return false;
            text.remove_prefix(1);
        }
        if (!is_digit(text.front())) return true;
        digits += text.front();
        text.remove_prefix(1);
    }
    return true;
}

std::int64_t saturated(const std::string& digits, bool negative) {
    using Limits = std::numeric_limits<std::int64_t>;
    std::int64_t value = 0;
    for (const char c : digits) {
        const int digit = c - '0';
        if (negative ? value < (Limits::min() + digit) / 10 : value > (Limits::max() - digit) / 10)
            return negative ? Limits::min() : Limits::max();
        value = value * 10 + (negative ? -digit : digit);
    }
    return value;
}

bool same_word(std::string_view text, std::string_view lower) {
    if (text.size() != lower.size()) return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != lower[i]) return false;
    }
    return true;
}

/// Takes "e+5" off the front of `text` and adds it to `number`. False when an exponent has no digits.
bool take_exponent(std::string_view& text, std::string& number) {
    if (text.empty() || (text.front() != 'e' && text.front() != 'E')) return true;
    text.remove_prefix(1);
    number += 'e';
    if (take_sign(text)) number += '-';
    const std::size_t before = number.size();
    return take_digits(text, number) && number.size() > before;
}

/// `number` without underscores and sign, as std::from_chars reads it.
double magnitude(const std::string& number) {
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc::result_out_of_range) return value;
    const std::size_t exponent = number.find('e');
    const bool tiny =
        exponent != std::string::npos ? number[exponent + 1] == '-' : number.find_first_not_of('0') == number.find('.');
    return tiny ? 0.0 : std::numeric_limits<double>::infinity();
}

/// The text of a decimal number without underscores; none where float() would refuse.
std::optional<std::string> decimal_number(std::string_view text) {
    std::string number;
    if (!take_digits(text, number)) return std::nullopt;
    std::size_t digits = number.size();
    if (!text.empty() && text.front() == '.') {
        text.remove_prefix(1);
        number += '.';
        if (!take_digits(text, number)) return std::nullopt;
        digits = number.size() - 1;
    }
    if (digits == 0 || !take_exponent(text, number) || !text.empty()) return std::nullopt;
    return number;
}

}  // namespace

std::string_view strip_blanks(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

std::optional<std::int64_t> parse_python_int(std::string_view text) {
    text = strip_blanks(text);
    const bool negative = take_sign(text);
    std::string digits;
    if (!take_digits(text, digits) || digits.empty() || !text.empty()) return std::nullopt;
    return saturated(digits, negative);
}

std::optional<double> parse_python_float(std::string_view text) {
    text = strip_blanks(text);
    const double sign = take_sign(text) ? -1.0 : 1.0;
    if (same_word(text, "inf") || same_word(text, "infinity")) return sign * std::numeric_limits<double>::infinity();
    if (same_word(text, "nan")) return std::numeric_limits<double>::quiet_NaN();
    const auto number = decimal_number(text);
    if (!number) return std::nullopt;
    return sign * magnitude(*number);
}

}  // namespace cpprun
