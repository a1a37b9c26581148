// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/pickle_value.hpp"

namespace cpprun {
namespace {

constexpr std::string_view torch_module = "torch.distributed.elastic.rendezvous.dynamic_rendezvous";
constexpr std::array<GlobalName, pickle_global_count> global_names{{
    {torch_module, "_RendezvousState"},
    {torch_module, "_NodeDesc"},
    {"datetime", "datetime"},
    {"datetime", "timezone"},
    {"datetime", "timedelta"},
}};

}  // namespace

GlobalName global_name(PickleGlobal global) {
    return global_names[static_cast<std::size_t>(global)];
}

std::optional<PickleGlobal> find_global(std::string_view module, std::string_view name) {
    for (std::size_t i = 0; i < global_names.size(); ++i) {
        if (global_names[i].module == module && global_names[i].name == name) return static_cast<PickleGlobal>(i);
    }
    return std::nullopt;
}

std::string_view describe_kind(PickleKind kind) {
    switch (kind) {
        case PickleKind::none:
            return "None";
        case PickleKind::boolean:
            return "a bool";
        case PickleKind::integer:
            return "an int";
        case PickleKind::big_integer:
            return "an int of more than 64 bits";
        case PickleKind::real:
            return "a float";
        case PickleKind::text:
            return "a str";
        case PickleKind::bytes:
            return "bytes";
        case PickleKind::tuple:
            return "a tuple";
        case PickleKind::list:
            return "a list";
        case PickleKind::dict:
            return "a dict";
        case PickleKind::set:
            return "a set";
        case PickleKind::global:
            return "a class";
        case PickleKind::object:
            return "an object";
    }
    return "nothing";
}

}  // namespace cpprun
