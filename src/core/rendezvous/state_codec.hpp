// SPDX-License-Identifier: BSD-3-Clause
// The shared rendezvous state as the store holds it: base64 of a pickle, read and written by torchrun's agents too.
#pragma once

#include "core/error.hpp"
#include "core/rendezvous/rendezvous_state.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// What stands in the store as long as nobody has joined (torch's c10d_rendezvous_backend.py).
inline constexpr std::string_view no_state_yet = "Y2FuaW1hZGFt";

/// An attribute of a state that a newer PyTorch may have put there, kept for those who know it.
struct UnknownAttribute {
    std::string name;
    std::string pickle;  ///< opcodes that leave its value on the stack of any pickle

    bool operator==(const UnknownAttribute&) const = default;
};
using UnknownAttributes = std::vector<UnknownAttribute>;

struct DecodedState {
    /// None: nobody has joined yet.
    std::optional<RendezvousState> state;
    /// How to write the next one. Between layouts that the state does not tell apart, the newest.
    StateDialect dialect = StateDialect::aware;
    /// Whether the state has times, which tell the layouts apart that cannot share a job. If not, a dialect seen before
    /// is to be trusted more than `dialect`.
    bool dialect_is_certain = false;
    /// Words for the user when the state holds two layouts that cannot share a job; else empty. `dialect` is then
    /// that of the others' times.
    std::string mixed;
    UnknownAttributes unknown;
};

/// `stored` is the key's value. `own`, if given, is the caller: where two layouts are mixed, its heartbeat says least.
/// The Error tells what is wrong with the value: it is another program's, or of a PyTorch that is not known yet.
Result<DecodedState> decode_state(std::string_view stored, const NodeId* own = nullptr);

/// The same for the pickle itself.
Result<DecodedState> decode_pickled_state(std::string_view pickle, const NodeId* own = nullptr);

/// The value to store. Addresses must be UTF-8. Times outside the years 1 to 9999 become the nearest within. The bytes
/// are not those that Python would write, but any PyTorch of the dialect reads the same state from them.
std::string encode_state(const RendezvousState& state, StateDialect dialect, const UnknownAttributes& unknown);

/// The pickle alone.
std::string encode_pickled_state(const RendezvousState& state, StateDialect dialect, const UnknownAttributes& unknown);

/// "PyTorch 2.6 and later": for messages.
std::string_view describe_dialect(StateDialect dialect);

}  // namespace cpprun
