// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/line_splitter.hpp"

namespace cpprun {
namespace {

/// Length of the character that a byte begins, or 0 when no character begins so.
std::size_t utf8_length(unsigned char first) {
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first < 0xe0) return 2;
    if (first >= 0xe0 && first < 0xf0) return 3;
    if (first >= 0xf0 && first < 0xf5) return 4;
    return 0;
}

}  // namespace

std::size_t incomplete_utf8_bytes(std::string_view text) {
    for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if ((byte & 0xc0U) == 0x80U) continue;
        return utf8_length(byte) > back ? back : 0;
    }
    return 0;
}

}  // namespace cpprun
