// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/pickle_codec.hpp"

#include "core/text/terminal_safe.hpp"
#include "core/text/utf8.hpp"

#include <fmt/format.h>

#include <bit>
#include <limits>

namespace cpprun {
namespace {

namespace op {
constexpr unsigned char mark = '(', stop = '.', none = 'N', binint = 'J', binint1 = 'K', binint2 = 'M', binfloat = 'G',
                        binunicode = 'X', binbytes = 'B', short_binbytes = 'C', append = 'a', appends = 'e',
                        build = 'b', empty_dict = '}', empty_list = ']', empty_tuple = ')', binget = 'h',
                        long_binget = 'j', reduce = 'R', setitem = 's', setitems = 'u', tuple = 't', proto = 0x80,
                        newobj = 0x81, tuple1 = 0x85, tuple2 = 0x86, tuple3 = 0x87, newtrue = 0x88, newfalse = 0x89,
                        long1 = 0x8a, long4 = 0x8b, short_binunicode = 0x8c, binunicode8 = 0x8d, binbytes8 = 0x8e,
                        empty_set = 0x8f, additems = 0x90, stack_global = 0x93, memoize = 0x94, frame = 0x95;
}  // namespace op

constexpr std::size_t name_shown_max = 80;

std::string shown(std::string_view name) {
    return terminal_safe(name.substr(0, name_shown_max)) + (name.size() > name_shown_max ? "…" : "");
}

// One pass over the bytes with Python's stack machine. An opcode that cannot be carried out leaves a refusal.
class Reader {
  public:
    Reader(std::string_view pickle, const PickleLimits& limits) : all_(pickle), rest_(pickle), limits_(limits) {}

    Result<PickleTree> read() {
        if (all_.size() > limits_.bytes) {
            return failure(fmt::format("a pickle of {} bytes; at most {} are read", all_.size(), limits_.bytes));
        }
        if (all_.size() < 2 || static_cast<unsigned char>(all_[0]) != op::proto) return failure("not a pickle");
        if (const auto protocol = static_cast<unsigned char>(all_[1]); protocol < 2 || protocol > 5) {
            return failure(fmt::format("a pickle of protocol {}; 2 to 5 are read", protocol));
        }
        rest_.remove_prefix(2);
        values_.reserve(std::min(all_.size() / 8 + 16, limits_.values));
        while (refusal_.empty()) {
            if (rest_.empty()) return failure(fmt::format("the pickle breaks off at byte {}", all_.size()));
            at_ = all_.size() - rest_.size();
            const auto opcode = static_cast<unsigned char>(rest_.front());
            rest_.remove_prefix(1);
            if (opcode == op::stop) {
                if (stack_.empty()) refuse("ends without a value");
                if (refusal_.empty()) check_nesting(stack_.back(), 0);
                if (refusal_.empty()) return PickleTree{std::move(values_), stack_.back()};
                break;
            }
            step(opcode);
        }
        return failure(fmt::format("{}, at byte {} of the pickle", refusal_, at_));
    }

  private:
    void refuse(std::string why) {
        if (refusal_.empty()) refusal_ = std::move(why);
    }

    void step(unsigned char opcode) {
        switch (opcode) {
            case op::frame:
                skip_frame();
                break;
            case op::mark:
                if (marks_.size() >= limits_.depth) refuse(fmt::format("groups nested deeper than {}", limits_.depth));
                marks_.push_back(stack_.size());
                break;
            case op::none:
                push({.kind = PickleKind::none});
                break;
            case op::newtrue:
                push({.kind = PickleKind::boolean, .integer = 1});
                break;
            case op::newfalse:
                push({.kind = PickleKind::boolean});
                break;
            case op::binint1:
                push_integer(number(1));
                break;
            case op::binint2:
                push_integer(number(2));
                break;
            case op::binint:
                push_integer(static_cast<std::int32_t>(number(4)));
                break;
            case op::long1:
                push_long(number(1));
                break;
            case op::long4:
                push_long(number(4));
                break;
            case op::binfloat:
                push_real();
                break;
            case op::short_binunicode:
                push_text(number(1));
                break;
            case op::binunicode:
                push_text(number(4));
                break;
            case op::binunicode8:
                push_text(number(8));
                break;
            case op::short_binbytes:
                push_bytes(number(1));
                break;
            case op::binbytes:
                push_bytes(number(4));
                break;
            case op::binbytes8:
                push_bytes(number(8));
                break;
            case op::empty_tuple:
                push({.kind = PickleKind::tuple});
                break;
            case op::tuple1:
                push_tuple(1);
                break;
            case op::tuple2:
                push_tuple(2);
                break;
            case op::tuple3:
                push_tuple(3);
                break;
            case op::tuple:
                push_tuple(above_mark());
                break;
            case op::empty_list:
                push({.kind = PickleKind::list});
                break;
            case op::append:
                extend(PickleKind::list, 1);
                break;
            case op::appends:
                extend(PickleKind::list, above_mark());
                break;
            case op::empty_dict:
                push({.kind = PickleKind::dict});
                break;
            case op::setitem:
                extend(PickleKind::dict, 2);
                break;
            case op::setitems:
                extend(PickleKind::dict, above_mark());
                break;
            case op::empty_set:
                push({.kind = PickleKind::set});
                break;
            case op::additems:
                extend(PickleKind::set, above_mark());
                break;
            case op::stack_global:
                push_global();
                break;
            case op::newobj:
                push_object(false);
                break;
            case op::reduce:
                push_object(true);
                break;
            case op::build:
                build();
                break;
            case op::memoize:
                if (!stack_.empty())
                    memo_.push_back(stack_.back());
                else
                    refuse("remembers a value that is not there");
                break;
            case op::binget:
                recall(number(1));
                break;
            case op::long_binget:
                recall(number(4));
                break;
            default:
                refuse(fmt::format("the opcode 0x{:02x} has no place in a rendezvous state", opcode));
        }
    }

    // Of what follows the opcode.
    std::string_view take(std::uint64_t size) {
        if (size > rest_.size()) {
            refuse("breaks off");
            return {};
        }
        const std::string_view taken = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return taken;
    }

    std::uint64_t number(unsigned size) {
        std::uint64_t value = 0;
        unsigned shift = 0;
        for (const char c : take(size)) {
            value |= std::uint64_t{static_cast<unsigned char>(c)} << shift;
            shift += 8;
        }
        return value;
    }

    void skip_frame() {
        if (number(8) > rest_.size()) refuse("a frame is longer than the pickle");
    }

    void push(PickleValue value) {
        if (!refusal_.empty()) return;
        if (values_.size() >= limits_.values) return refuse(fmt::format("more than {} values", limits_.values));
        stack_.push_back(static_cast<ValueId>(values_.size()));
        values_.push_back(std::move(value));
    }

    void push_integer(std::uint64_t value) {
        push({.kind = PickleKind::integer, .integer = static_cast<std::int64_t>(value)});
    }
    void push_integer(std::int32_t value) { push({.kind = PickleKind::integer, .integer = value}); }

    void push_long(std::uint64_t size) {
        const std::string_view digits = take(size);
        if (digits.size() > 8) return push({.kind = PickleKind::big_integer, .text = digits});
        std::uint64_t value = !digits.empty() && (digits.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
        for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
            value = value << 8U | static_cast<unsigned char>(*digit);
        }
        push_integer(value);
    }

    void push_real() {
        std::uint64_t bits = 0;
        for (const char c : take(8)) bits = bits << 8U | static_cast<unsigned char>(c);
        push({.kind = PickleKind::real, .real = std::bit_cast<double>(bits)});
    }

    void push_text(std::uint64_t size) {
        const std::string_view text = take(size);
        if (!is_utf8_or_surrogates(text)) return refuse("a str that is not UTF-8");
        push({.kind = PickleKind::text, .text = text});
    }

    void push_bytes(std::uint64_t size) { push({.kind = PickleKind::bytes, .text = take(size)}); }

    // The lowest place on the stack that belongs to the innermost group.
    std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

    // How many values stand above the mark, which is taken away.
    std::size_t above_mark() {
        if (marks_.empty()) {
            refuse("a group of values without a beginning");
            return 0;
        }
        const std::size_t count = stack_.size() - marks_.back();
        marks_.pop_back();
        return count;
    }

    bool has(std::size_t count) {
        if (refusal_.empty() && stack_.size() - floor() < count) refuse("needs values that are not there");
        return refusal_.empty();
    }

    ValueId pop() {
        const ValueId id = stack_.back();
        stack_.pop_back();
        return id;
    }

    std::vector<ValueId> pop_all(std::size_t count) {
        const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
        std::vector<ValueId> taken(begin, stack_.end());
        stack_.erase(begin, stack_.end());
        return taken;
    }

    void push_tuple(std::size_t count) {
        if (has(count)) push({.kind = PickleKind::tuple, .items = pop_all(count)});
    }

    bool can_be_key(ValueId id) const {
        const PickleKind kind = values_[id].kind;
        return kind != PickleKind::list && kind != PickleKind::dict && kind != PickleKind::set;
    }

    // Adds the last `count` values to the container below them.
    void extend(PickleKind kind, std::size_t count) {
        if (!has(count + 1)) return;
        PickleValue& container = values_[stack_[stack_.size() - count - 1]];
        if (container.kind != kind) {
            return refuse(
                fmt::format("adds to {}, which is not {}", describe_kind(container.kind), describe_kind(kind)));
        }
        if (kind == PickleKind::dict && count % 2 != 0) return refuse("a key without a value");
        const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
        if (kind != PickleKind::list) {
            for (auto at = begin; at < stack_.end(); at += kind == PickleKind::dict ? 2 : 1) {
                if (!can_be_key(*at)) return refuse(fmt::format("{} as a key", describe_kind(values_[*at].kind)));
            }
        }
        container.items.insert(container.items.end(), begin, stack_.end());
        stack_.erase(begin, stack_.end());
    }

    void push_global() {
        if (!has(2)) return;
        const PickleValue& name = values_[pop()];
        const PickleValue& module = values_[pop()];
        if (name.kind != PickleKind::text || module.kind != PickleKind::text) return refuse("a class without a name");
        const auto global = find_global(module.text, name.text);
        if (!global) {
            return refuse(
                fmt::format("'{}.{}' has no place in a rendezvous state", shown(module.text), shown(name.text)));
        }
        push({.kind = PickleKind::global, .global = *global});
    }

    void push_object(bool called) {
        if (!has(2)) return;
        const ValueId arguments = pop();
        const PickleValue& type = values_[pop()];
        if (type.kind != PickleKind::global) {
            return refuse(fmt::format("{} in the place of a class", describe_kind(type.kind)));
        }
        if (values_[arguments].kind != PickleKind::tuple) return refuse("arguments that are not a tuple");
        push({.kind = PickleKind::object, .global = type.global, .called = called, .items = {arguments}});
    }

    void build() {
        if (!has(2)) return;
        const ValueId attributes = pop();
        PickleValue& object = values_[stack_.back()];
        if (object.kind != PickleKind::object || object.items.size() != 1 ||
            values_[attributes].kind != PickleKind::dict) {
            return refuse(fmt::format("attributes for {} from {}", describe_kind(object.kind),
                                      describe_kind(values_[attributes].kind)));
        }
        object.items.push_back(attributes);
    }

    void recall(std::uint64_t number) {
        if (!refusal_.empty()) return;
        if (number >= memo_.size()) return refuse(fmt::format("recalls value {}, which it never had", number));
        stack_.push_back(memo_[number]);
    }

    // What is known of a value when all below it has been visited.
    struct Extent {
        unsigned height = 0;  // 0: not known
        bool open = false;    // being visited: met again, it contains itself
        std::uint64_t expanded = 0;
    };

    // Visits each value once.
    Extent check_nesting(ValueId id, unsigned depth) {
        if (extents_.empty()) extents_.resize(values_.size());
        const auto too_deep = [&](unsigned height) { return depth + height > limits_.depth; };
        if (extents_[id].open) refuse("a value that contains itself");
        if (too_deep(std::max(extents_[id].height, 1U))) {
            refuse(fmt::format("values nested deeper than {}", limits_.depth));
        }
        if (!refusal_.empty() || extents_[id].height != 0) return extents_[id];
        extents_[id].open = true;
        const bool names_class = values_[id].kind == PickleKind::global || values_[id].kind == PickleKind::object;
        Extent whole{1, false, (names_class ? 96 : 16) + values_[id].text.size()};
        for (const ValueId item : values_[id].items) {
            const Extent part = check_nesting(item, depth + 1);
            if (!refusal_.empty()) return {};
            whole.height = std::max(whole.height, part.height + 1);
            whole.expanded += part.expanded;
            if (whole.expanded > limits_.expanded_bytes) {
                refuse("more than can be held when written out");
                return {};
            }
        }
        return extents_[id] = whole;
    }

    std::string_view all_;
    std::string_view rest_;
    const PickleLimits& limits_;
    std::size_t at_ = 0;  // of the opcode in work
    std::string refusal_;
    std::vector<PickleValue> values_;
    std::vector<ValueId> stack_;
    std::vector<std::size_t> marks_;
    std::vector<ValueId> memo_;
    std::vector<Extent> extents_;
};

}  // namespace

Result<PickleTree> read_pickle(std::string_view pickle, const PickleLimits& limits) {
    return Reader(pickle, limits).read();
}

void PickleWriter::little_endian(std::uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) out_.push_back(static_cast<char>(value >> (8 * i)));
}

void PickleWriter::sized(unsigned char short_op, unsigned char normal_op, unsigned char long_op,
                         std::string_view value) {
    const bool is_short = value.size() < 256;
    const bool is_long = value.size() > std::numeric_limits<std::uint32_t>::max();
    op(is_short ? short_op : is_long ? long_op : normal_op);
    little_endian(value.size(), is_short ? 1 : is_long ? 8 : 4);
    out_ += value;
}

void PickleWriter::begin() {
    out_ += "\x80\x04";
    remembered_ = 0;
}

void PickleWriter::stop() {
    op(op::stop);
}
void PickleWriter::none() {
    op(op::none);
}
void PickleWriter::boolean(bool value) {
    op(value ? op::newtrue : op::newfalse);
}
void PickleWriter::empty_tuple() {
    op(op::empty_tuple);
}
void PickleWriter::tuple(unsigned count) {
    op(static_cast<unsigned char>(op::tuple1 + count - 1));
}
void PickleWriter::empty_dict() {
    op(op::empty_dict);
}
void PickleWriter::empty_set() {
    op(op::empty_set);
}
void PickleWriter::mark() {
    op(op::mark);
}
void PickleWriter::set_items() {
    op(op::setitems);
}
void PickleWriter::add_items() {
    op(op::additems);
}
void PickleWriter::call() {
    op(op::reduce);
}
void PickleWriter::new_object() {
    op(op::newobj);
}
void PickleWriter::build() {
    op(op::build);
}

void PickleWriter::integer(std::int64_t value) {
    if (value >= 0 && value <= 0xffff) {
        op(value <= 0xff ? op::binint1 : op::binint2);
        little_endian(static_cast<std::uint64_t>(value), value <= 0xff ? 1 : 2);
    } else if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
        op(op::binint);
        little_endian(static_cast<std::uint64_t>(value), 4);
    } else {
        op(op::long1);
        op(8);
        little_endian(static_cast<std::uint64_t>(value), 8);
    }
}

void PickleWriter::real(double value) {
    op(op::binfloat);
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 56; shift >= 0; shift -= 8)
        out_.push_back(static_cast<char>(bits >> static_cast<unsigned>(shift)));
}

void PickleWriter::text(std::string_view value) {
    sized(op::short_binunicode, op::binunicode, op::binunicode8, value);
}

void PickleWriter::bytes(std::string_view value) {
    sized(op::short_binbytes, op::binbytes, op::binbytes8, value);
}

void PickleWriter::global(PickleGlobal value) {
    const GlobalName name = global_name(value);
    text(name.module);
    text(name.name);
    op(op::stack_global);
}

std::uint32_t PickleWriter::remember() {
    op(op::memoize);
    return remembered_++;
}

void PickleWriter::recall(std::uint32_t number) {
    op(number < 256 ? op::binget : op::long_binget);
    little_endian(number, number < 256 ? 1 : 4);
}

void PickleWriter::items(const PickleTree& tree, const PickleValue& from) {
    op(op::mark);
    for (const ValueId item : from.items) value(tree, item);
}

void PickleWriter::value(const PickleTree& tree, ValueId id) {
    const PickleValue& from = tree.at(id);
    switch (from.kind) {
        case PickleKind::none:
            return none();
        case PickleKind::boolean:
            return boolean(from.integer != 0);
        case PickleKind::integer:
            return integer(from.integer);
        case PickleKind::big_integer:
            op(op::long4);
            little_endian(from.text.size(), 4);
            out_ += from.text;
            return;
        case PickleKind::real:
            return real(from.real);
        case PickleKind::text:
            return text(from.text);
        case PickleKind::bytes:
            return bytes(from.text);
        case PickleKind::tuple:
            items(tree, from);
            return op(op::tuple);
        case PickleKind::list:
            op(op::empty_list);
            items(tree, from);
            return op(op::appends);
        case PickleKind::dict:
            empty_dict();
            items(tree, from);
            return set_items();
        case PickleKind::set:
            empty_set();
            items(tree, from);
            return add_items();
        case PickleKind::global:
            return global(from.global);
        case PickleKind::object:
            global(from.global);
            value(tree, from.items.front());
            from.called ? call() : new_object();
            if (from.items.size() < 2) return;
            value(tree, from.items[1]);
            return build();
    }
}

}  // namespace cpprun
