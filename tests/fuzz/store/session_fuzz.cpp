// SPDX-License-Identifier: BSD-3-Clause
// Three clients in one store without sockets. The input is a list of parcels: client, length, bytes. Whatever comes:
// no crash, memory within its limit, and everything given back when all have left.
#include "unit/store/session_harness.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    std::string_view bytes(reinterpret_cast<const char*>(data), size);
    std::optional<cpprun::StoreGeneration> legacy;
    if ((data[0] & 3U) != 0) legacy = static_cast<cpprun::StoreGeneration>(data[0] & 3U);
    std::size_t observed = 0;
    cpprun::StoreRules rules;
    if ((data[0] & 4U) != 0) {
        rules = {
            .agent_prefixes = {"/a"},
            .observed_prefixes = {"/"},
            .ephemeral_prefixes = {"/", "init"},
            .observer = [&](const cpprun::StoreEvent& event) { observed += event.key.size() + event.value.size(); }};
    }
    bytes.remove_prefix(1);
    constexpr std::size_t memory_max = 1U << 20U;
    cpprun::test::StoreHarness store({.reply_backlog_bytes = 4096, .memory_bytes = memory_max}, legacy,
                                     std::move(rules));
    while (bytes.size() > 2) {
        const auto client = static_cast<unsigned char>(bytes[0]);
        const std::size_t length = std::min(bytes.size() - 2, std::size_t{static_cast<unsigned char>(bytes[1])});
        const int number = client % 3;
        if ((client & 0x80U) != 0) store.leave(number);
        if ((client & 0x40U) != 0) store.engine.clear_but({"/a", "i"});
        if (!store.rejected(number)) store.send(number, bytes.substr(2, length));
        bytes.remove_prefix(2 + length);
        if (store.memory > memory_max + 65536) abort();
    }
    for (int number = 0; number < 3; ++number) {
        store.read(number);
        store.leave(number);
    }
    store.engine.clear();
    if (store.memory != 0 || store.engine.awaited_keys() != 0) abort();
    return 0;
}
