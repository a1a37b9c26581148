// SPDX-License-Identifier: BSD-3-Clause
#include "core/store/wire_codec.hpp"

#include "unit/store/session_harness.hpp"

#include <gtest/gtest.h>

#include <random>

namespace cpprun::test {
namespace {

using Op = StoreOperation;
using Status = RequestDecoder::Status;

std::string encoded(const StoreRequest& request) {
    std::string bytes;
    encode_request(request, bytes);
    return bytes;
}

const std::vector<std::string_view> two_keys{"first", "second"};
const std::vector<std::string_view> two_values{"1", ""};

std::vector<StoreRequest> one_of_each() {
    return {{.operation = Op::set, .key = "k", .value = "v"},
            {.operation = Op::compare_set, .key = "k", .value = "new", .expected = "old"},
            {.operation = Op::get, .key = "k"},
            {.operation = Op::add, .key = "k", .number = -3},
            {.operation = Op::check, .keys = two_keys},
            {.operation = Op::wait, .keys = two_keys},
            {.operation = Op::number_of_keys},
            {.operation = Op::remove, .key = ""},
            {.operation = Op::append, .key = "k", .value = ""},
            {.operation = Op::multi_get, .keys = two_keys},
            {.operation = Op::multi_set, .keys = two_keys, .values = two_values},
            {.operation = Op::cancel_wait},
            {.operation = Op::ping, .nonce = 0x80000001},
            {.operation = Op::queue_push, .key = "q", .value = "v"},
            {.operation = Op::queue_pop, .key = "q"},
            {.operation = Op::queue_length, .key = "q"},
            {.operation = Op::list_keys},
            {.operation = Op::barrier, .key = "b", .number = 4}};
}

void expect_same(const StoreRequest& a, const StoreRequest& b) {
    EXPECT_EQ(a.operation, b.operation);
    EXPECT_EQ(a.key, b.key);
    EXPECT_EQ(a.value, b.value);
    EXPECT_EQ(a.expected, b.expected);
    EXPECT_EQ(a.number, b.number);
    EXPECT_EQ(a.nonce, b.nonce);
    EXPECT_TRUE(std::ranges::equal(a.keys, b.keys));
    EXPECT_TRUE(std::ranges::equal(a.values, b.values));
}

TEST(WireCodec, DecodesWhatItEncodesAtEveryFragmentation) {
    for (const StoreRequest& request : one_of_each()) {
        const std::string bytes = encoded(request);
        for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
            RequestDecoder decoder;
            ASSERT_EQ(decoder.next(std::string_view(bytes).substr(0, cut)), Status::incomplete)
                << store_operation_name(request.operation) << " cut at " << cut;
            const std::string again = bytes + "next";
            ASSERT_EQ(decoder.next(again), Status::complete);
            EXPECT_EQ(decoder.consumed(), bytes.size());
            expect_same(decoder.request(), request);
        }
    }
}

TEST(WireCodec, RefusesUnknownOperationsOnTheirFirstByte) {
    for (const int number : {0, 19, 20, 32, 64, 127, 128, 255}) {
        RequestDecoder decoder;
        const char byte = static_cast<char>(number);
        EXPECT_EQ(decoder.next({&byte, 1}), Status::bad) << number;
    }
}

TEST(WireCodec, RefusesALengthAsSoonAsItIsReadAndBeforeAnythingIsAllocated) {
    for (const std::uint64_t length :
         {std::uint64_t{8193}, std::uint64_t{1} << 62U, std::uint64_t{1} << 63U, UINT64_MAX}) {
        std::string bytes(1, '\x03');
        append_u64(bytes, length);
        RequestDecoder decoder;
        EXPECT_EQ(decoder.next(bytes), Status::bad) << length;
        EXPECT_NE(decoder.fault().find("the limit is 8192"), std::string::npos);
    }
}

TEST(WireCodec, TakesKeysValuesAndListsUpToTheRealServersLimits) {
    const std::string key(8192, 'k');
    const std::string value(std::size_t{8} << 20U, 'v');
    RequestDecoder decoder;
    const std::string bytes = encoded({.operation = Op::set, .key = key, .value = value});
    EXPECT_EQ(decoder.next(bytes), Status::complete);
    EXPECT_EQ(RequestDecoder().next(encoded({.operation = Op::set, .key = "k", .value = value + "v"})), Status::bad);
    const std::vector<std::string_view> keys(131072, "k");
    const std::string many = encoded({.operation = Op::wait, .keys = keys});
    ASSERT_EQ(decoder.next(many), Status::complete);
    EXPECT_EQ(decoder.request().keys.size(), 131072U);
}

TEST(WireCodec, RefusesAListOfAMillionKeys) {
    for (const char operation : {'\x05', '\x06', '\x0a', '\x0b'}) {
        std::string bytes(1, operation);
        append_u64(bytes, 1'000'000);
        EXPECT_EQ(RequestDecoder().next(bytes), Status::bad);
    }
}

TEST(WireCodec, BoundsOneRequestAsAWhole) {
    const std::string value(60, 'v');
    const std::vector<std::string_view> keys{"a", "b"};
    const std::vector<std::string_view> values{value, value};
    const std::string bytes = encoded({.operation = Op::multi_set, .keys = keys, .values = values});
    EXPECT_EQ(RequestDecoder({.request_bytes = 100}).next(bytes), Status::bad);
    EXPECT_EQ(RequestDecoder({.request_bytes = 1000}).next(bytes), Status::complete);
}

TEST(WireCodec, ReadsEachByteOfALongListOnce) {
    // A decoder that starts over with each piece would take hours for this.
    const std::vector<std::string_view> keys(131072, "key");
    const std::string bytes = encoded({.operation = Op::multi_get, .keys = keys});
    RequestDecoder decoder;
    for (std::size_t end = 1; end < bytes.size(); end += 7) {
        ASSERT_EQ(decoder.next(std::string_view(bytes).substr(0, end)), Status::incomplete);
    }
    EXPECT_EQ(decoder.next(bytes), Status::complete);
}

TEST(StoreSession, ClosesOnAnythingButTheHandshake) {
    for (const std::string_view bytes :
         {std::string_view("GET / HTTP/1.1\r\n"), std::string_view("\x00\xce\xf7\x85\x3d", 5),
          std::string_view("\x0d\x01\x02\x03\x04", 5), std::string_view("\xff", 1)}) {
        StoreHarness store;
        EXPECT_EQ(store.send(1, bytes), "");
        EXPECT_TRUE(store.rejected(1));
    }
}

TEST(StoreSession, RefusesASecondHandshake) {
    StoreHarness store;
    const std::string handshake(store_handshake.data(), store_handshake.size());
    store.send(1, handshake);
    EXPECT_FALSE(store.rejected(1));
    store.send(1, handshake);
    EXPECT_TRUE(store.rejected(1));
}

TEST(StoreSession, AppliesNothingOfARequestThatNeverEnds) {
    StoreHarness store;
    const std::string bytes = encoded({.operation = Op::multi_set, .keys = two_keys, .values = two_values});
    store.set("x", "1");
    store.send(1, std::string_view(bytes).substr(0, bytes.size() - 1));
    EXPECT_EQ(store.get("first", 2), "");
    EXPECT_EQ(store.engine.number_of_keys(), 1U);
    store.leave(1);
    EXPECT_EQ(store.engine.number_of_keys(), 1U);
}

TEST(StoreSession, AnswersManyRequestsInOneSegmentInTheirOrder) {
    StoreHarness store;
    std::string bytes(store_handshake.data(), store_handshake.size());
    std::string expected;
    for (std::int64_t i = 1; i <= 64; ++i) {
        bytes += encoded({.operation = Op::add, .key = "n", .number = 1});
        append_u64(expected, static_cast<std::uint64_t>(i));
    }
    EXPECT_EQ(store.send(1, bytes), expected);
}

TEST(StoreSession, StopsTakingRequestsWhileRepliesPileUp) {
    StoreHarness store({.reply_backlog_bytes = 1000});
    store.set("k", std::string(900, 'v'));
    std::string bytes;
    for (int i = 0; i < 10; ++i) bytes += encoded({.operation = Op::get, .key = "k"});
    EXPECT_EQ(store.send(1, bytes).size(), 10U * 908U);
    EXPECT_EQ(store.pauses(1), 5);
}

TEST(StoreSession, HoldsNoMoreThanItWasSent) {
    StoreHarness store;
    store.set("x", "1");
    std::string bytes(1, '\x01');
    append_u64(bytes, 1);
    bytes += 'k';
    append_u64(bytes, std::uint64_t{8} << 20U);
    store.send(1, bytes);
    EXPECT_LT(store.held_bytes(1), 100U) << "an announced length is no reason to allocate";
}

TEST(StoreSession, AnOlderClientIsRefusedUnlessLegacyIsOn) {
    const std::string old_set =
        std::string("\x00", 1) + encoded({.operation = Op::set, .key = "k", .value = "v"}).substr(1);
    StoreHarness current;
    current.send(1, old_set);
    EXPECT_TRUE(current.rejected(1));
    StoreHarness legacy({}, StoreGeneration::a_or_b);
    legacy.send(1, old_set);
    EXPECT_FALSE(legacy.rejected(1)) << legacy.fault(1);
    EXPECT_EQ(legacy.get("k", 2), "v") << "and one with a handshake is served beside it";
}

TEST(StoreSession, LegacyTellsADeleteFromAnAppendByWhatFollows) {
    StoreHarness store({}, StoreGeneration::a_or_b);
    std::string append = encoded({.operation = Op::append, .key = "k", .value = "v"});
    append.front() = '\x08';
    std::string remove = encoded({.operation = Op::remove, .key = "k"});
    EXPECT_EQ(store.send(1, append), "");
    EXPECT_EQ(store.engine.number_of_keys(), 1U);
    EXPECT_EQ(store.send(1, remove).size(), 8U);
    EXPECT_EQ(store.engine.number_of_keys(), 0U);
}

TEST(StoreSession, AnOldClientsAbandonedWaitDoesNotAnswerLater) {
    // Generation A gives up a wait without a word; a late answer would shift its whole stream by one byte.
    StoreHarness store({}, StoreGeneration::a);
    std::string wait(1, '\x05');
    append_u64(wait, 1);
    append_u64(wait, 1);
    wait += 'k';
    store.send(1, wait);
    EXPECT_EQ(store.send(1, "\x06").size(), 8U);
    std::string set = encoded({.operation = Op::set, .key = "k", .value = "v"});
    set.front() = '\x00';
    store.send(2, set);
    EXPECT_EQ(store.read(1), "");
}

}  // namespace
}  // namespace cpprun::test
