// SPDX-License-Identifier: BSD-3-Clause
// Python's pickle format, as far as the shared rendezvous state needs it: the opcodes that torch's agents write, those
// of further plain values, and five classes. A reader in Python would run whatever a pickle names; this one builds
// data. Opcodes: CPython's Lib/pickletools.py.
#pragma once

#include "core/error.hpp"
#include "core/rendezvous/pickle_value.hpp"

#include <string>
#include <string_view>

namespace cpprun {

/// What a pickle may cost. The defaults hold states of some tens of thousands of nodes.
struct PickleLimits {
    std::size_t bytes = std::size_t{16} << 20U;
    std::size_t values = 1'000'000;  ///< built ones
    unsigned depth = 64;             ///< of values in values
    /// When every use of a shared value is written out: bounds what walking over the tree costs.
    std::size_t expanded_bytes = std::size_t{64} << 20U;
};

/// Reads protocols 2 to 5. Bytes behind the end are ignored, as Python does. The Error names the opcode or class that
/// was refused, and where. The tree points into `pickle`.
Result<PickleTree> read_pickle(std::string_view pickle, const PickleLimits& limits = {});

/// Writes protocol 4 without frames, one opcode for each call. It does not check that they make sense together.
class PickleWriter {
  public:
    /// Begins a pickle.
    void begin();
    /// Ends it.
    void stop();

    void none();
    void boolean(bool value);
    void integer(std::int64_t value);
    void real(double value);
    /// UTF-8.
    void text(std::string_view value);
    void bytes(std::string_view value);
    void global(PickleGlobal value);
    void empty_tuple();
    /// Of the last `count` values, which is 1 to 3.
    void tuple(unsigned count);
    void empty_dict();
    void empty_set();
    /// Begins the entries of the dict or set that was put last.
    void mark();
    /// Ends them.
    void set_items();
    void add_items();
    /// Calls the last but one value with the last one, a tuple.
    void call();
    /// A new object of a class and a tuple.
    void new_object();
    /// Gives the last but one value, an object, the attributes of the last one, a dict.
    void build();
    /// Remembers the last value; returns its number for recall().
    std::uint32_t remember();
    void recall(std::uint32_t number);

    /// A value and all within; uses no memory of this pickle, so that the bytes can stand in any pickle.
    void value(const PickleTree& tree, ValueId id);
    /// Bytes of such a value.
    void append(std::string_view written) { out_ += written; }

    const std::string& written() const { return out_; }
    void reserve(std::size_t bytes) { out_.reserve(bytes); }

  private:
    void op(unsigned char opcode) { out_.push_back(static_cast<char>(opcode)); }
    void little_endian(std::uint64_t value, unsigned bytes);
    void sized(unsigned char short_op, unsigned char normal_op, unsigned char long_op, std::string_view value);
    void items(const PickleTree& tree, const PickleValue& from);

    std::string out_;
    std::uint32_t remembered_ = 0;
};

}  // namespace cpprun
