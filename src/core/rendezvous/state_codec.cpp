// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/state_codec.hpp"

#include "core/rendezvous/pickle_codec.hpp"
#include "core/text/base64.hpp"
#include "core/text/terminal_safe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

namespace cpprun {
namespace {

using std::chrono::microseconds;

// Python's datetime, in its ten bytes: year, month (and a bit for repeated local times), day, hour, minute, second,
// microsecond; big-endian. CPython's Modules/_datetimemodule.c, datetime_getstate.
constexpr std::size_t packed_time_size = 10;
constexpr WallTime first_time{std::chrono::sys_days{std::chrono::year{1} / 1 / 1}};
constexpr WallTime last_time{std::chrono::sys_days{std::chrono::year{9999} / 12 / 31} + std::chrono::days{1} -
                             microseconds{1}};

std::string pack_time(WallTime time) {
    time = std::clamp(time, first_time, last_time);
    const auto day = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::year_month_day date{day};
    const std::chrono::hh_mm_ss<microseconds> clock{time - day};
    const auto year = static_cast<unsigned>(static_cast<int>(date.year()));
    const auto fraction = static_cast<unsigned>(clock.subseconds().count());
    std::string packed;
    for (const unsigned byte :
         {year >> 8U, year, static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
          static_cast<unsigned>(clock.hours().count()), static_cast<unsigned>(clock.minutes().count()),
          static_cast<unsigned>(clock.seconds().count()), fraction >> 16U, fraction >> 8U, fraction}) {
        packed.push_back(static_cast<char>(byte));
    }
    return packed;
}

std::optional<WallTime> unpack_time(std::string_view packed) {
    if (packed.size() != packed_time_size) return std::nullopt;
    const auto byte = [&](std::size_t at) { return static_cast<unsigned>(static_cast<unsigned char>(packed[at])); };
    const unsigned year = byte(0) << 8U | byte(1);
    const std::chrono::year_month_day date{std::chrono::year{static_cast<int>(year)},
                                           std::chrono::month{byte(2) & 0x7fU}, std::chrono::day{byte(3)}};
    const unsigned fraction = byte(7) << 16U | byte(8) << 8U | byte(9);
    if (year < 1 || year > 9999 || !date.ok()) return std::nullopt;
    if (byte(4) > 23 || byte(5) > 59 || byte(6) > 59 || fraction > 999'999) return std::nullopt;
    return WallTime{std::chrono::sys_days{date} + std::chrono::hours{byte(4)} + std::chrono::minutes{byte(5)} +
                    std::chrono::seconds{byte(6)} + microseconds{fraction}};
}

std::string name_of(const NodeId& node) {
    return fmt::format("{}_{}_{}", terminal_safe(node.addr), node.pid, node.local_id);
}

// Makes sense of a tree. What it reads along the way tells the dialect.
class Interpreter {
  public:
    Interpreter(const PickleTree& tree, const NodeId* own) : tree_(tree), own_(own) {}

    Result<DecodedState> read() {
        const PickleValue& root = tree_.at(tree_.root);
        if (root.kind != PickleKind::object || root.global != PickleGlobal::state) {
            return failure(fmt::format("holds {} in the place of a state", describe(root)));
        }
        DecodedState decoded;
        BOOST_OUTCOME_TRYV(read_state(root, decoded));
        decide_dialect(decoded);
        return decoded;
    }

  private:
    using Fields = std::array<const PickleValue*, 3>;
    enum class Zone { none, naive, aware };

    std::string describe(const PickleValue& value) const {
        if (value.kind != PickleKind::object && value.kind != PickleKind::global) {
            return std::string(describe_kind(value.kind));
        }
        return fmt::format("{} of '{}'", describe_kind(value.kind), global_name(value.global).name);
    }

    Error unfit(std::string_view what, const PickleValue& value, std::string_view wanted) const {
        return failure(fmt::format("has {} for {}, which is {}", describe(value), what, wanted));
    }

    Result<void> read_state(const PickleValue& object, DecodedState& decoded) {
        if (!tree_.at(object.items[0]).items.empty()) return failure("has a state that was made with arguments");
        if (object.items.size() < 2) return failure("has a state without attributes");
        RendezvousState& state = decoded.state.emplace();
        std::array<bool, 7> seen{};
        const auto& attributes = tree_.at(object.items[1]).items;
        for (std::size_t at = 0; at + 1 < attributes.size(); at += 2) {
            const PickleValue& key = tree_.at(attributes[at]);
            const PickleValue& value = tree_.at(attributes[at + 1]);
            if (key.kind != PickleKind::text) return unfit("the name of an attribute", key, "a str");
            if (key.text == "round") {
                BOOST_OUTCOME_TRY(state.round, integer(key.text, value));
                if (state.round < 0) return failure(fmt::format("has the round {}", state.round));
                seen[0] = true;
            } else if (key.text == "complete") {
                BOOST_OUTCOME_TRY(state.complete, boolean(key.text, value));
                seen[1] = true;
            } else if (key.text == "deadline") {
                state.deadline.reset();
                if (value.kind != PickleKind::none) {
                    BOOST_OUTCOME_TRY(state.deadline, time(key.text, value, nullptr));
                }
                seen[2] = true;
            } else if (key.text == "closed") {
                BOOST_OUTCOME_TRY(state.closed, boolean(key.text, value));
                seen[3] = true;
            } else if (key.text == "participants") {
                BOOST_OUTCOME_TRYV(read_participants(value, state));
                seen[4] = true;
            } else if (key.text == "wait_list") {
                BOOST_OUTCOME_TRYV(read_nodes(key.text, value, state.wait_list));
                seen[5] = true;
            } else if (key.text == "redundancy_list") {
                BOOST_OUTCOME_TRYV(read_nodes(key.text, value, state.redundancy_list));
                has_redundancy_list_ = true;
            } else if (key.text == "last_heartbeats") {
                BOOST_OUTCOME_TRYV(read_heartbeats(value, state));
                seen[6] = true;
            } else {
                keep(key.text, attributes[at + 1], decoded.unknown);
            }
        }
        static constexpr std::array<std::string_view, 7> names{"round",        "complete",  "deadline",       "closed",
                                                               "participants", "wait_list", "last_heartbeats"};
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (!seen[i]) return failure(fmt::format("has a state without '{}'", names[i]));
        }
        return boost::outcome_v2::success();
    }

    void keep(std::string_view name, ValueId value, UnknownAttributes& unknown) const {
        PickleWriter writer;
        writer.value(tree_, value);
        std::erase_if(unknown, [&](const UnknownAttribute& known) { return known.name == name; });
        unknown.push_back({std::string(name), writer.written()});
    }

    Result<std::int64_t> integer(std::string_view what, const PickleValue& value) const {
        if (value.kind != PickleKind::integer) return unfit(what, value, "an int of 64 bits");
        return value.integer;
    }

    Result<bool> boolean(std::string_view what, const PickleValue& value) const {
        if (value.kind != PickleKind::boolean) return unfit(what, value, "a bool");
        return value.integer != 0;
    }

    Result<void> read_participants(const PickleValue& dict, RendezvousState& state) {
        if (dict.kind != PickleKind::dict) return unfit("participants", dict, "a dict");
        state.participants.clear();
        for (std::size_t at = 0; at + 1 < dict.items.size(); at += 2) {
            BOOST_OUTCOME_TRY(NodeId id, node(tree_.at(dict.items[at])));
            BOOST_OUTCOME_TRY(const std::int64_t rank, integer("a rank", tree_.at(dict.items[at + 1])));
            state.participants.insert_or_assign(std::move(id), rank);
        }
        return boost::outcome_v2::success();
    }

    Result<void> read_nodes(std::string_view what, const PickleValue& set, std::set<NodeId>& nodes) {
        if (set.kind != PickleKind::set) return unfit(what, set, "a set");
        nodes.clear();
        for (const ValueId item : set.items) {
            BOOST_OUTCOME_TRY(NodeId id, node(tree_.at(item)));
            nodes.insert(std::move(id));
        }
        return boost::outcome_v2::success();
    }

    Result<void> read_heartbeats(const PickleValue& dict, RendezvousState& state) {
        if (dict.kind != PickleKind::dict) return unfit("last_heartbeats", dict, "a dict");
        state.last_heartbeats.clear();
        for (std::size_t at = 0; at + 1 < dict.items.size(); at += 2) {
            BOOST_OUTCOME_TRY(NodeId id, node(tree_.at(dict.items[at])));
            BOOST_OUTCOME_TRY(const WallTime heartbeat, time("a heartbeat", tree_.at(dict.items[at + 1]), &id));
            state.last_heartbeats.insert_or_assign(std::move(id), heartbeat);
        }
        return boost::outcome_v2::success();
    }

    Result<NodeId> node(const PickleValue& object) {
        if (object.kind != PickleKind::object || object.global != PickleGlobal::node) {
            return unfit("a node", object, "a _NodeDesc");
        }
        const auto& arguments = tree_.at(object.items[0]).items;
        Fields fields{};
        if (object.items.size() == 1 && arguments.size() == fields.size()) {
            for (std::size_t i = 0; i < fields.size(); ++i) fields[i] = &tree_.at(arguments[i]);
        } else if (object.items.size() == 2 && arguments.empty()) {
            BOOST_OUTCOME_TRY(fields, node_attributes(tree_.at(object.items[1])));
        } else {
            return failure("has a node that is made in an unknown way");
        }
        NodeId id;
        if (fields[0]->kind != PickleKind::text) return unfit("a node's address", *fields[0], "a str");
        id.addr = fields[0]->text;
        BOOST_OUTCOME_TRY(id.pid, integer("a node's pid", *fields[1]));
        BOOST_OUTCOME_TRY(id.local_id, integer("a node's local_id", *fields[2]));
        return id;
    }

    Result<Fields> node_attributes(const PickleValue& attributes) {
        Fields fields{};
        for (std::size_t at = 0; at + 1 < attributes.items.size(); at += 2) {
            const PickleValue& name = tree_.at(attributes.items[at]);
            const PickleValue* value = &tree_.at(attributes.items[at + 1]);
            if (name.kind != PickleKind::text) return unfit("the name of a node's attribute", name, "a str");
            if (name.text == "addr" || name.text == "fqdn") {
                (name.text == "addr" ? has_addr_ : has_fqdn_) = true;
                fields[0] = value;
            } else if (name.text == "pid") {
                fields[1] = value;
            } else if (name.text == "local_id") {
                fields[2] = value;
            } else {
                // Part of what makes nodes equal, so that leaving it out would tear the job apart.
                return failure(fmt::format("has nodes with the unknown attribute '{}'", terminal_safe(name.text)),
                               "a newer cpprun may know the PyTorch that the other nodes use");
            }
        }
        if (std::find(fields.begin(), fields.end(), nullptr) != fields.end()) {
            return failure("has a node without one of addr, pid and local_id");
        }
        return fields;
    }

    // `node` is whose heartbeat it is; nullptr for the deadline.
    Result<WallTime> time(std::string_view what, const PickleValue& object, const NodeId* node) {
        if (object.kind != PickleKind::object || object.global != PickleGlobal::datetime || object.items.size() != 1) {
            return unfit(what, object, "a datetime");
        }
        const auto& arguments = tree_.at(object.items[0]).items;
        if (arguments.empty() || arguments.size() > 2 || tree_.at(arguments[0]).kind != PickleKind::bytes) {
            return failure(fmt::format("has a datetime for {} that is made in an unknown way", what));
        }
        const auto unzoned = unpack_time(tree_.at(arguments[0]).text);
        if (!unzoned) return failure(fmt::format("has a datetime for {} that is no time", what));
        if (arguments.size() == 1) {
            note_zone(Zone::naive, node);
            return *unzoned;
        }
        BOOST_OUTCOME_TRY(const microseconds offset, zone_offset(tree_.at(arguments[1])));
        note_zone(Zone::aware, node);
        return std::clamp(*unzoned - offset, first_time, last_time);
    }

    Result<microseconds> zone_offset(const PickleValue& zone) {
        if (&zone == utc_) return microseconds{0};
        static constexpr std::string_view unknown = "has a time zone that is made in an unknown way";
        if (zone.kind != PickleKind::object || zone.global != PickleGlobal::timezone || zone.items.size() != 1) {
            return unfit("a time zone", zone, "a timezone");
        }
        const auto& arguments = tree_.at(zone.items[0]).items;
        if (arguments.empty() || arguments.size() > 2) return failure(std::string(unknown));
        const PickleValue& delta = tree_.at(arguments[0]);
        if (delta.kind != PickleKind::object || delta.global != PickleGlobal::timedelta || delta.items.size() != 1) {
            return failure(std::string(unknown));
        }
        const auto& parts = tree_.at(delta.items[0]).items;  // days, seconds, microseconds
        if (parts.size() != 3) return failure(std::string(unknown));
        std::array<std::int64_t, 3> numbers{};
        static constexpr std::array<std::int64_t, 3> bounds{1, 86'400, 1'000'000};
        for (std::size_t i = 0; i < parts.size(); ++i) {
            BOOST_OUTCOME_TRY(numbers[i], integer("a time zone's offset", tree_.at(parts[i])));
            if (numbers[i] < -bounds[i] || numbers[i] > bounds[i]) return failure("has a time zone of more than a day");
        }
        const microseconds offset =
            std::chrono::days{numbers[0]} + std::chrono::seconds{numbers[1]} + microseconds{numbers[2]};
        if (offset == microseconds{0}) utc_ = &zone;
        return offset;
    }

    void note_zone(Zone zone, const NodeId* node) {
        if (node != nullptr && own_ != nullptr && *node == *own_) {
            own_zone_ = zone;
            return;
        }
        auto& example = zone == Zone::aware ? aware_example_ : naive_example_;
        if (!example) example = node == nullptr ? "the deadline" : "the heartbeat of " + name_of(*node);
    }

    void decide_dialect(DecodedState& decoded) const {
        // Two flavours among the others' times: the newer, as a job grows into the future.
        const Zone others = aware_example_ ? Zone::aware : naive_example_ ? Zone::naive : Zone::none;
        const Zone zone = others != Zone::none ? others : own_zone_;
        decoded.dialect_is_certain = zone != Zone::none || has_fqdn_;
        if (zone == Zone::aware || (zone == Zone::none && has_redundancy_list_ && !has_fqdn_)) {
            decoded.dialect = StateDialect::aware;
        } else if (has_fqdn_) {
            decoded.dialect = StateDialect::fqdn;
        } else {
            decoded.dialect = has_redundancy_list_ ? StateDialect::redundancy : StateDialect::addr;
        }
        decoded.mixed = mixture(others);
    }

    std::string mixture(Zone others) const {
        if (has_addr_ && has_fqdn_) {
            return "nodes of PyTorch 1.13 or older and of 2.0 or newer are in one job, which these do not support";
        }
        std::string aware = aware_example_.value_or("");
        std::string naive = naive_example_.value_or("");
        if (others != Zone::none && own_zone_ != Zone::none) {
            std::string& ours = own_zone_ == Zone::aware ? aware : naive;
            if (ours.empty()) ours = "our own heartbeat";
        }
        if (aware.empty() || naive.empty()) return {};
        return fmt::format(
            "nodes of PyTorch 2.5 or older and of 2.6 or newer are in one job, which these do not support: {} has a "
            "time zone, {} has none",
            aware, naive);
    }

    const PickleTree& tree_;
    const NodeId* own_;
    const PickleValue* utc_ = nullptr;  // the zone that was found to be UTC, which all times share
    bool has_redundancy_list_ = false;
    bool has_addr_ = false;
    bool has_fqdn_ = false;
    Zone own_zone_ = Zone::none;
    std::optional<std::string> aware_example_;
    std::optional<std::string> naive_example_;
};

// Writes a state; nodes and what all times have in common are written once and recalled.
class StateWriter {
  public:
    StateWriter(const RendezvousState& state, StateDialect dialect, const UnknownAttributes& unknown)
        : state_(state), dialect_(dialect), unknown_(unknown) {}

    std::string write() {
        constexpr std::size_t estimate_per_node = 120;
        out_.reserve(1024 + estimate_per_node * state_.last_heartbeats.size());
        written_nodes_.reserve(state_.last_heartbeats.size());
        out_.begin();
        out_.global(PickleGlobal::state);
        out_.empty_tuple();
        out_.new_object();
        out_.empty_dict();
        out_.mark();
        attributes();
        out_.set_items();
        out_.build();
        out_.stop();
        return out_.written();
    }

  private:
    void attributes() {
        out_.text("round");
        out_.integer(state_.round);
        out_.text("complete");
        out_.boolean(state_.complete);
        out_.text("deadline");
        state_.deadline ? time(*state_.deadline) : out_.none();
        out_.text("closed");
        out_.boolean(state_.closed);
        out_.text("participants");
        out_.empty_dict();
        out_.mark();
        for (const auto& [id, rank] : state_.participants) {
            node(id);
            out_.integer(rank);
        }
        out_.set_items();
        out_.text("wait_list");
        nodes(state_.wait_list);
        if (dialect_ == StateDialect::redundancy || dialect_ == StateDialect::aware ||
            !state_.redundancy_list.empty()) {
            out_.text("redundancy_list");
            nodes(state_.redundancy_list);
        }
        out_.text("last_heartbeats");
        out_.empty_dict();
        out_.mark();
        for (const auto& [id, heartbeat] : state_.last_heartbeats) {
            node(id);
            time(heartbeat);
        }
        out_.set_items();
        for (const UnknownAttribute& attribute : unknown_) {
            out_.text(attribute.name);
            out_.append(attribute.pickle);
        }
    }

    void nodes(const std::set<NodeId>& list) {
        out_.empty_set();
        out_.mark();
        for (const NodeId& id : list) node(id);
        out_.add_items();
    }

    // As a call, so that the first field, whose name differs between PyTorch's releases, needs no name.
    void node(const NodeId& id) {
        if (const auto found = written_nodes_.find(&id); found != written_nodes_.end()) {
            return out_.recall(found->second);
        }
        shared(node_class_, [&] { out_.global(PickleGlobal::node); });
        out_.text(id.addr);
        out_.integer(id.pid);
        out_.integer(id.local_id);
        out_.tuple(3);
        out_.call();
        written_nodes_.emplace(&id, out_.remember());
    }

    void time(WallTime time) {
        shared(datetime_class_, [&] { out_.global(PickleGlobal::datetime); });
        out_.bytes(pack_time(time));
        if (dialect_ == StateDialect::aware) {
            shared(utc_, [&] { utc(); });
            out_.tuple(2);
        } else {
            out_.tuple(1);
        }
        out_.call();
    }

    void utc() {
        out_.global(PickleGlobal::timezone);
        out_.global(PickleGlobal::timedelta);
        for (int i = 0; i < 3; ++i) out_.integer(0);
        out_.tuple(3);
        out_.call();
        out_.tuple(1);
        out_.call();
    }

    template <class Write>
    void shared(std::optional<std::uint32_t>& number, Write write) {
        if (number) return out_.recall(*number);
        write();
        number = out_.remember();
    }

    struct SameNode {
        bool operator()(const NodeId* left, const NodeId* right) const { return *left == *right; }
    };
    struct NodeHash {
        std::size_t operator()(const NodeId* id) const {
            constexpr std::size_t odd = 0x9e3779b97f4a7c15U;
            return (std::hash<std::string>{}(id->addr) * odd ^ static_cast<std::size_t>(id->pid)) * odd ^
                   static_cast<std::size_t>(id->local_id);
        }
    };

    const RendezvousState& state_;
    StateDialect dialect_;
    const UnknownAttributes& unknown_;
    PickleWriter out_;
    std::unordered_map<const NodeId*, std::uint32_t, NodeHash, SameNode> written_nodes_;
    std::optional<std::uint32_t> node_class_;
    std::optional<std::uint32_t> datetime_class_;
    std::optional<std::uint32_t> utc_;
};

}  // namespace

Result<DecodedState> decode_pickled_state(std::string_view pickle, const NodeId* own) {
    const auto unreadable = [](const Error& error) {
        return failure("the rendezvous state in the store cannot be read: it " + error.message, error.hint);
    };
    const auto tree = read_pickle(pickle);
    if (!tree) return failure("the rendezvous state in the store cannot be read: " + tree.error().message);
    auto decoded = Interpreter(tree.value(), own).read();
    if (!decoded) return unreadable(decoded.error());
    return decoded;
}

Result<DecodedState> decode_state(std::string_view stored, const NodeId* own) {
    if (stored == no_state_yet) return DecodedState{};
    constexpr std::size_t stored_max = PickleLimits{}.bytes / 3 * 4 + 4;
    if (stored.size() > stored_max) {
        return failure(fmt::format("the rendezvous state in the store has {} bytes; at most {} are read", stored.size(),
                                   stored_max));
    }
    const auto pickle = decode_base64(stored);
    if (!pickle) return failure("the rendezvous state in the store is not base64 text");
    return decode_pickled_state(*pickle, own);
}

std::string encode_pickled_state(const RendezvousState& state, StateDialect dialect, const UnknownAttributes& unknown) {
    return StateWriter(state, dialect, unknown).write();
}

std::string encode_state(const RendezvousState& state, StateDialect dialect, const UnknownAttributes& unknown) {
    return encode_base64(encode_pickled_state(state, dialect, unknown));
}

std::string_view describe_dialect(StateDialect dialect) {
    switch (dialect) {
        case StateDialect::fqdn:
            return "PyTorch 1.13 and older";
        case StateDialect::addr:
            return "PyTorch 2.0 to 2.2";
        case StateDialect::redundancy:
            return "PyTorch 2.3 to 2.5";
        case StateDialect::aware:
            return "PyTorch 2.6 and later";
    }
    return "";
}

}  // namespace cpprun
