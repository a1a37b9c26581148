// SPDX-License-Identifier: BSD-3-Clause
#include "core/text/utf8.hpp"

#include <cstdint>

namespace cpprun {
namespace {

// The length of the sequence at the beginning of `bytes`, which is not empty; 0 for none.
std::size_t sequence_length(std::string_view bytes) {
    const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); };
    const std::uint8_t first = byte(0);
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4) return 0;
    const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (bytes.size() < length) return 0;
    for (std::size_t at = 1; at < length; ++at) {
        if ((byte(at) & 0xc0U) != 0x80) return 0;
    }
    // Longer than needed, or beyond U+10FFFF.
    if (first == 0xe0 && byte(1) < 0xa0) return 0;
    if (first == 0xf0 && byte(1) < 0x90) return 0;
    if (first == 0xf4 && byte(1) > 0x8f) return 0;
    return length;
}

}  // namespace

bool is_utf8_or_surrogates(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t length = sequence_length(bytes);
        if (length == 0) return false;
        bytes.remove_prefix(length);
    }
    return true;
}

}  // namespace cpprun
