// SPDX-License-Identifier: BSD-3-Clause
// Any text as a wish and as mail. What is taken for a message is written so that it reads as the same message.
#include "core/rendezvous/agent_mail.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using namespace cpprun;

const NodeId me{"me", 1, 0};

void try_wish(std::string_view text) {
    const auto wish = decode_wish(me, text);
    if (!wish || !wish->event) return;
    const std::string written = encode_wish(*wish->event, 1);
    const auto again = decode_wish(me, written);
    if (!again || !again->event || encode_wish(*again->event, 1) != written) abort();
}

void try_mail(std::string_view text) {
    const auto mail = decode_mail(me, text);
    if (!mail) return;
    if (const auto* formed = std::get_if<RoundFormed>(&*mail)) {
        const auto& members = formed->members->by_rank;
        if (formed->rank < 0 || formed->rank >= static_cast<std::int64_t>(members.size())) abort();
        if (members[static_cast<std::size_t>(formed->rank)] != me) abort();
    }
    const std::string written = encode_mail(*mail, 1);
    const auto again = decode_mail(me, written);
    if (!again || encode_mail(*again, 1) != written) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try_wish(text);
    try_mail(text);
    const auto node = parse_node(text);
    if (node && parse_node(node_text(*node)) != node) abort();
    return 0;
}
