// SPDX-License-Identifier: BSD-3-Clause
// Any pickle: a state or words. What is taken for a state is written so that it reads as the same state, with the same
// unknown attributes.
#include "core/rendezvous/state_codec.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    if (const auto from_text = cpprun::decode_state(bytes); !from_text && from_text.error().message.empty()) abort();
    const auto decoded = cpprun::decode_pickled_state(bytes);
    if (!decoded) {
        if (decoded.error().message.empty()) abort();
        return 0;
    }
    const auto& first = decoded.value();
    const auto again = cpprun::decode_state(cpprun::encode_state(*first.state, first.dialect, first.unknown));
    if (!again || again.value().state != first.state || !again.value().mixed.empty()) abort();
    if (again.value().unknown != first.unknown) abort();
    const bool aware = first.dialect == cpprun::StateDialect::aware;
    if (again.value().dialect_is_certain && (again.value().dialect == cpprun::StateDialect::aware) != aware) abort();
    return 0;
}
