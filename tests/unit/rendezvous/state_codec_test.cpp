// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/state_codec.hpp"

#include "core/rendezvous/pickle_codec.hpp"
#include "core/text/base64.hpp"
#include "unit/rendezvous/state_json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>

namespace cpprun {
namespace {

using std::chrono::microseconds;
using testing::HasSubstr;
using namespace std::string_literals;

constexpr std::array all_dialects{StateDialect::fqdn, StateDialect::addr, StateDialect::redundancy,
                                  StateDialect::aware};

test::Json golden() {
    std::ifstream file(CPPRUN_FIXTURES "/states.json");
    return test::Json::parse(file);
}

std::string why_not(std::string_view stored) {
    const auto decoded = decode_state(stored);
    return decoded ? "decoded" : decoded.error().message;
}

WallTime at(std::int64_t ticks) {
    return WallTime{microseconds{ticks}};
}

constexpr std::int64_t some_time = 1'796'052'134'999'999;

RendezvousState state_of_nodes(int count) {
    RendezvousState state;
    state.complete = true;
    for (int i = 0; i < count; ++i) {
        NodeId node{fmt::format("node{:04}.rack17.cluster.example.com", i), 100'000 + i, 0};  // 34 characters
        state.participants[node] = i;
        state.last_heartbeats[node] = at(some_time + i);
    }
    return state;
}

TEST(StateCodec, ReadsWhatTorchHasWritten) {
    const auto vectors = golden();
    ASSERT_EQ(vectors.size(), 21U);
    for (const auto& vector : vectors) {
        const auto decoded = decode_state(vector["stored"].get<std::string>());
        ASSERT_TRUE(decoded) << vector["name"] << ": " << decoded.error().message;
        ASSERT_TRUE(decoded.value().state);
        EXPECT_EQ(test::json_of(*decoded.value().state), vector["state"]) << vector["name"] << " " << vector["what"];
        EXPECT_EQ(test::name_of_dialect(decoded.value().dialect), vector["dialect"].get<std::string>())
            << vector["name"];
        EXPECT_EQ(decoded.value().dialect_is_certain, !vector["state"]["last_heartbeats"].empty()) << vector["name"];
        EXPECT_EQ(decoded.value().mixed, "");
        EXPECT_TRUE(decoded.value().unknown.empty());
    }
}

TEST(StateCodec, WritesWhatItHasRead) {
    for (const auto& vector : golden()) {
        const auto state = test::state_of(vector["state"]);
        for (const StateDialect dialect : all_dialects) {
            const auto again = decode_state(encode_state(state, dialect, {}));
            ASSERT_TRUE(again) << again.error().message;
            EXPECT_EQ(again.value().state, state);
            EXPECT_EQ(again.value().dialect == StateDialect::aware,
                      dialect == StateDialect::aware ||
                          (dialect == StateDialect::redundancy && state.last_heartbeats.empty()));
        }
    }
}

TEST(StateCodec, KnowsWhenThereIsNoState) {
    const auto decoded = decode_state("Y2FuaW1hZGFt");
    ASSERT_TRUE(decoded);
    EXPECT_FALSE(decoded.value().state);
    EXPECT_EQ(decoded.value().dialect, StateDialect::aware);
    EXPECT_FALSE(decoded.value().dialect_is_certain);
}

TEST(StateCodec, ReadsBase64AsPythonDoes) {
    const std::string stored = golden()[0]["stored"].get<std::string>();
    const auto wanted = decode_state(stored).value().state;
    std::string torn;
    for (const char c : stored) torn += {c, '\n', '!'};
    EXPECT_EQ(decode_state(torn).value().state, wanted);
    EXPECT_EQ(decode_state(stored + "AA==AAA").value().state, wanted);
    EXPECT_EQ(why_not("abc"), "the rendezvous state in the store is not base64 text");
    EXPECT_EQ(why_not("!!!"), "the rendezvous state in the store cannot be read: not a pickle");
    EXPECT_EQ(why_not(""), "the rendezvous state in the store cannot be read: not a pickle");
    EXPECT_EQ(why_not("aGVsbG8="), "the rendezvous state in the store cannot be read: not a pickle");
}

TEST(StateCodec, RefusesTooMuch) {
    EXPECT_THAT(why_not(std::string(30'000'000, 'A')), HasSubstr("30000000 bytes; at most"));
}

TEST(StateCodec, RandomStatesSurvive) {
    std::mt19937_64 random(20'260'101);
    const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(random() % bound); };
    const auto any_time = [&] { return at(below(4'000'000'000'000'000) - 1'000'000'000'000'000); };
    for (int i = 0; i < 3'000; ++i) {
        RendezvousState state;
        state.round = below(2) == 0 ? below(4) : below(1'000'000'000'000);
        state.complete = below(2) == 0;
        state.closed = below(2) == 0;
        if (below(2) == 0) state.deadline = any_time();
        const auto any_node = [&] {
            static constexpr std::array<std::string_view, 5> hosts{"a", "", "n\xc3\xbcrnberg", "node.example", "::1"};
            NodeId node{std::string(hosts[static_cast<std::size_t>(below(hosts.size()))]), below(70'000), below(3)};
            if (below(20) == 0) node.addr += std::string(static_cast<std::size_t>(below(400)), 'x');
            if (below(20) == 0) node.pid = below(1ULL << 40U) - (1LL << 39U);
            if (below(4) != 0) state.last_heartbeats[node] = any_time();
            return node;
        };
        for (auto count = below(6); count > 0; --count) state.participants[any_node()] = below(300);
        for (auto count = below(4); count > 0; --count) state.wait_list.insert(any_node());
        for (auto count = below(4); count > 0; --count) state.redundancy_list.insert(any_node());
        if (below(3) == 0 && !state.participants.empty()) state.wait_list.insert(state.participants.begin()->first);
        const StateDialect dialect = all_dialects[static_cast<std::size_t>(below(all_dialects.size()))];
        const auto decoded = decode_state(encode_state(state, dialect, {}));
        ASSERT_TRUE(decoded) << decoded.error().message;
        ASSERT_EQ(decoded.value().state, state) << test::json_of(state);
        ASSERT_EQ(decoded.value().mixed, "");
    }
}

TEST(StateCodec, StaysAsSmallAsPythons) {
    for (const int count : {1, 64, 4096}) {
        const std::string stored = encode_state(state_of_nodes(count), StateDialect::aware, {});
        EXPECT_LE(stored.size(), 450U + 127U * static_cast<unsigned>(count)) << count;
        EXPECT_EQ(decode_state(stored).value().state, state_of_nodes(count));
    }
}

TEST(StateCodec, TimesStayWithinPythonsYears) {
    RendezvousState state;
    state.deadline = WallTime::max();
    EXPECT_EQ(decode_state(encode_state(state, StateDialect::aware, {})).value().state->deadline,
              WallTime{std::chrono::sys_days{std::chrono::year{10'000} / 1 / 1} - microseconds{1}});
    state.deadline = WallTime::min();
    EXPECT_EQ(decode_state(encode_state(state, StateDialect::fqdn, {})).value().state->deadline,
              WallTime{std::chrono::sys_days{std::chrono::year{1} / 1 / 1}});
}

// A state whose attributes are `more` and then the usual ones, which a test may replace.
struct HandMade {
    PickleWriter writer;

    HandMade() {
        writer.begin();
        writer.global(PickleGlobal::state);
        writer.empty_tuple();
        writer.new_object();
        writer.empty_dict();
        writer.mark();
    }
    HandMade& field(std::string_view name, const std::string& opcodes) {
        writer.text(name);
        writer.append(opcodes);
        return *this;
    }
    HandMade& rest() {
        return field("round", "K\x03")
            .field("complete", "\x89")
            .field("deadline", "N")
            .field("closed", "\x89")
            .field("participants", "}")
            .field("wait_list", "\x8f")
            .field("last_heartbeats", "}");
    }
    std::string done() {
        writer.set_items();
        writer.build();
        writer.stop();
        return writer.written();
    }
    Result<DecodedState> decoded(const NodeId* own = nullptr) { return decode_pickled_state(done(), own); }
    std::string why_not() {
        const auto result = decoded();
        return result ? "decoded" : result.error().message;
    }
};

std::string text(std::string_view value) {
    PickleWriter writer;
    writer.text(value);
    return writer.written();
}

std::string type(PickleGlobal global) {
    PickleWriter writer;
    writer.global(global);
    return writer.written();
}

std::string built_node(std::string_view address_field, const std::string& address) {
    return type(PickleGlobal::node) + ")\x81}(" + text(address_field) + text(address) + text("pid") + "K\x01" +
           text("local_id") + "K\x00"s + "ub";
}

const std::string packed_time = "C\x0a\x07\xea\x0b\x1e\x0f\x16\x0e\x0f\x42\x3f";

std::string naive() {
    return type(PickleGlobal::datetime) + packed_time + "\x85R";
}

std::string zoned(const std::string& offset) {
    return type(PickleGlobal::datetime) + packed_time + type(PickleGlobal::timezone) + type(PickleGlobal::timedelta) +
           offset + "\x87R\x85R\x86R";
}
const std::string utc = "K\x00K\x00K\x00"s;

TEST(StateCodec, UnknownAttributesSurvive) {
    const std::string value =
        "](K\x01G?\xf8\x00\x00\x00\x00\x00\x00}("s + text("k") + "(Nt\x75\x8f(" + built_node("addr", "n") + "\x90\x65";
    const auto decoded = HandMade().field("flavour", "K\x07").rest().field("nested", value).decoded();
    ASSERT_TRUE(decoded) << decoded.error().message;
    ASSERT_EQ(decoded.value().unknown.size(), 2U);
    EXPECT_EQ(decoded.value().unknown[0], (UnknownAttribute{"flavour", "K\x07"}));
    EXPECT_EQ(decoded.value().unknown[1].name, "nested");
    const auto again = decode_state(encode_state(*decoded.value().state, StateDialect::aware, decoded.value().unknown));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again.value().unknown, decoded.value().unknown);
    EXPECT_EQ(again.value().state, decoded.value().state);
}

TEST(StateCodec, WhatComesLastCounts) {
    const auto decoded = HandMade().field("round", "K\x01").field("x", "N").field("x", "K\x02").rest().decoded();
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded.value().state->round, 3);
    EXPECT_EQ(decoded.value().unknown, (UnknownAttributes{{"x", "K\x02"}}));
}

TEST(StateCodec, OtherZonesAreUnderstood) {
    const auto deadline = [](const std::string& opcodes) {
        const auto decoded = HandMade().rest().field("deadline", opcodes).decoded();
        return decoded ? test::ticks(*decoded.value().state->deadline) : -1;
    };
    const std::int64_t noon = deadline(naive());
    EXPECT_EQ(deadline(zoned(utc)), noon);
    EXPECT_EQ(deadline(zoned("K\x00M\x10\x0eK\x05"s)), noon - 3'600'000'005);
    EXPECT_EQ(deadline(zoned("J\xff\xff\xff\xffK\x00K\x00"s)), noon + 86'400'000'000);
    EXPECT_EQ(deadline(zoned("J\xff\xff\xff\x7fK\x00K\x00"s)), -1);
}

TEST(StateCodec, FindsTheDialect) {
    const auto dialect = [](HandMade state) { return state.decoded().value().dialect; };
    const auto with_node = [](std::string_view field, const std::string& time) {
        return "}(" + built_node(field, "n") + time + "u";
    };
    const std::string fqdn = with_node("fqdn", naive());
    const std::string addr = with_node("addr", naive());
    EXPECT_EQ(dialect(HandMade().rest()), StateDialect::addr);
    EXPECT_EQ(dialect(HandMade().rest().field("redundancy_list", "\x8f")), StateDialect::aware);
    EXPECT_EQ(dialect(HandMade().rest().field("last_heartbeats", fqdn)), StateDialect::fqdn);
    EXPECT_EQ(dialect(HandMade().rest().field("last_heartbeats", fqdn).field("redundancy_list", "\x8f")),
              StateDialect::fqdn);
    EXPECT_EQ(dialect(HandMade().rest().field("last_heartbeats", addr)), StateDialect::addr);
    EXPECT_EQ(dialect(HandMade().rest().field("last_heartbeats", addr).field("redundancy_list", "\x8f")),
              StateDialect::redundancy);
    EXPECT_EQ(dialect(HandMade().rest().field("last_heartbeats", with_node("addr", zoned(utc)))), StateDialect::aware);
}

TEST(StateCodec, MixedDialectsAreReported) {
    const NodeId a{"a", 1, 0};
    const std::string beats = "}(" + built_node("addr", "a") + naive() + built_node("addr", "b") + zoned(utc) + "u";
    const auto seen_by = [&](const NodeId* own) {
        return HandMade().rest().field("last_heartbeats", beats).decoded(own).value();
    };
    EXPECT_EQ(seen_by(nullptr).mixed,
              "nodes of PyTorch 2.5 or older and of 2.6 or newer are in one job, which these do not support: the "
              "heartbeat of b_1_0 has a time zone, the heartbeat of a_1_0 has none");
    EXPECT_EQ(seen_by(nullptr).dialect, StateDialect::aware);
    EXPECT_THAT(seen_by(&a).mixed, HasSubstr("heartbeat of b_1_0 has a time zone, our own heartbeat has none"));
    EXPECT_EQ(seen_by(&a).dialect, StateDialect::aware);
    const NodeId b{"b", 1, 0};
    EXPECT_THAT(seen_by(&b).mixed, HasSubstr("our own heartbeat has a time zone, the heartbeat of a_1_0 has none"));
    EXPECT_EQ(seen_by(&b).dialect, StateDialect::addr);
    const std::string fields = "}(" + built_node("addr", "a") + naive() + built_node("fqdn", "b") + naive() + "u";
    EXPECT_THAT(HandMade().rest().field("last_heartbeats", fields).decoded().value().mixed,
                HasSubstr("PyTorch 1.13 or older and of 2.0 or newer"));
}

TEST(StateCodec, NodesThatComeTwiceAreOne) {
    const std::string node = built_node("addr", "n");
    const auto decoded = HandMade().rest().field("participants", "}(" + node + "K\x01" + node + "K\x02u").decoded();
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded.value().state->participants, (std::map<NodeId, std::int64_t>{{NodeId{"n", 1, 0}, 2}}));
}

TEST(StateCodec, WhatDoesNotFitIsNamed) {
    const std::string node = built_node("addr", "n");
    EXPECT_EQ(decode_pickled_state("\x80\x04]."s).error().message,
              "the rendezvous state in the store cannot be read: it holds a list in the place of a state");
    EXPECT_EQ(HandMade().field("round", "K\x01").why_not(),
              "the rendezvous state in the store cannot be read: it has a state without 'complete'");
    EXPECT_THAT(HandMade().rest().field("round", "N").why_not(), HasSubstr("has None for round, which is an int"));
    EXPECT_THAT(HandMade().rest().field("round", "J\xff\xff\xff\xff").why_not(), HasSubstr("the round -1"));
    EXPECT_THAT(HandMade().rest().field("closed", "K\x01").why_not(), HasSubstr("an int for closed"));
    EXPECT_THAT(HandMade().rest().field("deadline", "K\x01").why_not(), HasSubstr("an int for deadline"));
    EXPECT_THAT(HandMade().rest().field("participants", "]").why_not(), HasSubstr("a list for participants"));
    EXPECT_THAT(HandMade().rest().field("participants", "}(K\x01K\x01u").why_not(), HasSubstr("an int for a node"));
    EXPECT_THAT(HandMade().rest().field("participants", "}(" + node + "Nu").why_not(), HasSubstr("None for a rank"));
    EXPECT_THAT(HandMade().rest().field("wait_list", "}").why_not(), HasSubstr("a dict for wait_list"));
    EXPECT_THAT(HandMade().rest().field("last_heartbeats", "}(" + node + node + "u").why_not(),
                HasSubstr("an object of '_NodeDesc' for a heartbeat"));
    EXPECT_THAT(HandMade()
                    .rest()
                    .field("wait_list", "\x8f(" + type(PickleGlobal::node) + ")\x81}(" + text("port") + "K\x01ub\x90")
                    .why_not(),
                HasSubstr("unknown attribute 'port'"));
    EXPECT_THAT(HandMade().rest().field("wait_list", "\x8f(" + type(PickleGlobal::node) + ")\x81}b\x90").why_not(),
                HasSubstr("without one of"));
    EXPECT_THAT(HandMade().rest().field("wait_list", "\x8f(" + type(PickleGlobal::node) + "NNN\x87R\x90").why_not(),
                HasSubstr("None for a node's address"));
    const auto not_a_time = [](const std::string& bytes) {
        return HandMade().rest().field("deadline", type(PickleGlobal::datetime) + "C\x0a" + bytes + "\x85R").why_not();
    };
    for (const std::string& bytes :
         {"\x00\x00\x0b\x1e\x0f\x16\x0e\x0f\x42\x3f"s, "\x27\x10\x0b\x1e\x0f\x16\x0e\x0f\x42\x3f"s,
          "\x07\xea\x0d\x1e\x0f\x16\x0e\x0f\x42\x3f"s, "\x07\xea\x02\x1e\x0f\x16\x0e\x0f\x42\x3f"s,
          "\x07\xea\x0b\x1e\x18\x16\x0e\x0f\x42\x3f"s, "\x07\xea\x0b\x1e\x0f\x3c\x0e\x0f\x42\x3f"s,
          "\x07\xea\x0b\x1e\x0f\x16\x3c\x0f\x42\x3f"s, "\x07\xea\x0b\x1e\x0f\x16\x0e\x0f\x42\x40"s}) {
        EXPECT_THAT(not_a_time(bytes), HasSubstr("that is no time"));
    }
}

// Any change of one byte of a real state: a state or words, never a crash.
TEST(StateCodec, DamagedStatesDoNoHarm) {
    for (const auto& vector : golden()) {
        const std::string pickle = *decode_base64(vector["stored"].get<std::string>());
        for (std::size_t i = 0; i < pickle.size(); ++i) {
            EXPECT_FALSE(decode_pickled_state(pickle.substr(0, i)));
            for (const char change : {'\x01', '\x80', '\xff'}) {
                std::string damaged = pickle;
                damaged[i] = static_cast<char>(damaged[i] ^ change);
                if (const auto decoded = decode_pickled_state(damaged); !decoded) {
                    EXPECT_NE(decoded.error().message, "");
                }
            }
        }
    }
}

}  // namespace
}  // namespace cpprun
