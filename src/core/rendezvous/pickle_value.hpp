// SPDX-License-Identifier: BSD-3-Clause
// What a pickle of the shared rendezvous state may hold, as plain data. Values refer to each other by number, as a
// pickle may use one value in several places.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace cpprun {

/// The five classes that a state is made of. Any other is refused: nothing of a pickle is ever looked up or called.
enum class PickleGlobal : std::uint8_t { state, node, datetime, timezone, timedelta };
inline constexpr std::size_t pickle_global_count = 5;

struct GlobalName {
    std::string_view module;
    std::string_view name;
};

/// How Python names it.
GlobalName global_name(PickleGlobal global);
std::optional<PickleGlobal> find_global(std::string_view module, std::string_view name);

enum class PickleKind : std::uint8_t {
    none,
    boolean,
    integer,
    big_integer,  ///< beyond 64 bits
    real,
    text,
    bytes,
    tuple,
    list,
    dict,
    set,
    global,  ///< a class itself
    object,  ///< an instance
};

/// "a list": for messages.
std::string_view describe_kind(PickleKind kind);

using ValueId = std::uint32_t;

struct PickleValue {
    PickleKind kind = PickleKind::none;
    PickleGlobal global = PickleGlobal::state;  ///< of a global; of an object, its class
    bool called = false;                        ///< object: written as a call of the class, with `items[0]`
    std::int64_t integer = 0;                   ///< of an integer; of a boolean, 0 or 1
    double real = 0;
    /// Of text (UTF-8, maybe with surrogates), bytes, and a big integer (little-endian two's complement).
    std::string_view text;
    /// tuple, list, set: the elements; dict: key, value, key, value…; object: the tuple of its arguments, then the dict
    /// of its attributes if it has one.
    std::vector<ValueId> items;
};

/// No value contains itself. Texts and bytes point into what was read, which must live as long.
struct PickleTree {
    std::vector<PickleValue> values;
    ValueId root = 0;

    const PickleValue& at(ValueId id) const { return values[id]; }
};

}  // namespace cpprun
