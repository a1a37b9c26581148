// SPDX-License-Identifier: BSD-3-Clause
#include "core/store/messages.hpp"

namespace cpprun {
namespace {

using Op = StoreOperation;

constexpr std::array generation_a{Op::set,  Op::compare_set,    Op::get,   Op::add,   Op::check,
                                  Op::wait, Op::number_of_keys, Op::watch, Op::remove};
constexpr std::array generation_b{Op::set,       Op::compare_set,    Op::get,    Op::add,    Op::check,
                                  Op::wait,      Op::number_of_keys, Op::remove, Op::append, Op::multi_get,
                                  Op::multi_set, Op::cancel_wait};
// Number 0 is the handshake, which has been taken off before.
constexpr std::array generation_c{Op::set,          Op::compare_set,    Op::get,    Op::add,        Op::check,
                                  Op::wait,         Op::number_of_keys, Op::remove, Op::append,     Op::multi_get,
                                  Op::multi_set,    Op::cancel_wait,    Op::ping,   Op::queue_push, Op::queue_pop,
                                  Op::queue_length, Op::list_keys,      Op::barrier};

template <std::size_t N>
std::optional<Op> pick(const std::array<Op, N>& table, std::size_t index) {
    if (index >= N) return std::nullopt;
    return table[index];
}

}  // namespace

std::optional<StoreOperation> store_operation(StoreGeneration generation, std::uint8_t number) {
    switch (generation) {
        case StoreGeneration::current:
            return number == 0 ? std::nullopt : pick(generation_c, number - std::size_t{1});
        case StoreGeneration::a:
            return pick(generation_a, number);
        case StoreGeneration::b:
        case StoreGeneration::a_or_b:
            return pick(generation_b, number);
    }
    return std::nullopt;
}

std::uint8_t store_operation_number(StoreOperation operation) {
    for (std::size_t i = 0; i < generation_c.size(); ++i) {
        if (generation_c[i] == operation) return static_cast<std::uint8_t>(i + 1);
    }
    return 0;
}

std::string_view store_operation_name(StoreOperation operation) {
    switch (operation) {
        case Op::set:
            return "set";
        case Op::compare_set:
            return "compare_set";
        case Op::get:
            return "get";
        case Op::add:
            return "add";
        case Op::check:
            return "check";
        case Op::wait:
            return "wait";
        case Op::number_of_keys:
            return "num_keys";
        case Op::watch:
            return "watch_key";
        case Op::remove:
            return "delete_key";
        case Op::append:
            return "append";
        case Op::multi_get:
            return "multi_get";
        case Op::multi_set:
            return "multi_set";
        case Op::cancel_wait:
            return "cancel_wait";
        case Op::ping:
            return "ping";
        case Op::queue_push:
            return "queue_push";
        case Op::queue_pop:
            return "queue_pop";
        case Op::queue_length:
            return "queue_len";
        case Op::list_keys:
            return "list_keys";
        case Op::barrier:
            return "barrier";
    }
    return "?";
}

}  // namespace cpprun
