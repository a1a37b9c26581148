// SPDX-License-Identifier: BSD-3-Clause
// The vocabulary of the c10d TCPStore protocol: operations, their numbers on the wire, limits. Source of all numbers:
// traffic of PyTorch 1.13 to 2.14 (docs/store.md lists the bytes).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace cpprun {

/// What a client can ask of a store.
enum class StoreOperation : std::uint8_t {
    set,
    compare_set,
    get,
    add,
    check,
    wait,
    number_of_keys,
    watch,  ///< generation A only
    remove,
    append,
    multi_get,
    multi_set,
    cancel_wait,
    ping,
    queue_push,
    queue_pop,
    queue_length,
    list_keys,
    barrier,
};

/// Which numbering of the operations a connection speaks. There is no version field on the wire: `current` opens with
/// the handshake, the others do not.
enum class StoreGeneration : std::uint8_t {
    current,  ///< PyTorch 2.2 and later
    a,        ///< 1.13 and 2.0
    b,        ///< 2.1
    a_or_b,   ///< without a handshake, and nobody said which: 7 and 8 are guessed from what follows them
};

/// The first bytes of a connection of the current generation: operation 0 and the magic 0x3C85F7CE, low byte first.
inline constexpr std::array<char, 5> store_handshake{'\x00', '\xce', '\xf7', '\x85', '\x3c'};

/// Bounds that are checked before anything is allocated. The first three are those of PyTorch's libuv server.
struct StoreLimits {
    std::size_t key_bytes = 8192;
    std::size_t value_bytes = std::size_t{8} << 20U;
    std::size_t keys_per_request = 131072;
    std::size_t request_bytes = std::size_t{1} << 30U;        ///< one request, all its keys and values together
    std::size_t reply_backlog_bytes = std::size_t{1} << 20U;  ///< unsent replies, above which no request is taken
    std::size_t memory_bytes = SIZE_MAX;  ///< everything together: values, keys, waits, half requests, unsent replies
};

/// One request. All views point into the bytes that were decoded and live as long as those.
struct StoreRequest {
    StoreOperation operation = StoreOperation::ping;
    std::string_view key;
    std::string_view value;                    ///< set, append, queue_push: the value; compare_set: the desired value
    std::string_view expected;                 ///< compare_set
    std::int64_t number = 0;                   ///< add: the difference; barrier: how many take part
    std::uint32_t nonce = 0;                   ///< ping
    std::span<const std::string_view> keys;    ///< check, wait, multi_get, multi_set
    std::span<const std::string_view> values;  ///< multi_set, one for each key
};

/// One-byte answers.
namespace store_reply {
inline constexpr char ready = '\x00';         ///< check: all there
inline constexpr char not_ready = '\x01';     ///< check: not all there
inline constexpr char stop_waiting = '\x00';  ///< wait, barrier: it is done
inline constexpr char wait_cancelled = '\x01';
inline constexpr char watch_updated = '\x00';
inline constexpr char watch_created = '\x01';
inline constexpr char watch_deleted = '\x02';
inline constexpr char watch_registered = '\x03';
}  // namespace store_reply

/// The operation with this number; none: no such operation. In a_or_b, 7 and 8 come back as `remove` and `append`.
std::optional<StoreOperation> store_operation(StoreGeneration generation, std::uint8_t number);

/// The number of this operation in the current generation. `watch` has none and must not be asked for.
std::uint8_t store_operation_number(StoreOperation operation);

/// The name of an operation for messages, e.g. "compare_set".
std::string_view store_operation_name(StoreOperation operation);

}  // namespace cpprun
