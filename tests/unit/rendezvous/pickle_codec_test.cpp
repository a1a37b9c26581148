// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/pickle_codec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cpprun {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

std::string pickle(const std::string& opcodes) {
    return "\x80\x04" + opcodes + ".";
}

std::string refusal(const std::string& bytes, const PickleLimits& limits = {}) {
    const auto tree = read_pickle(bytes, limits);
    return tree ? "read" : tree.error().message;
}

// The root value of `opcodes`, written again.
std::string rewritten(const std::string& opcodes) {
    const std::string bytes = pickle(opcodes);
    const auto tree = read_pickle(bytes);
    if (!tree) return tree.error().message;
    PickleWriter writer;
    writer.value(tree.value(), tree.value().root);
    return writer.written();
}

TEST(PickleCodec, PlainValuesSurvive) {
    for (const std::string& opcodes : {"N"s,
                                       "\x88"s,
                                       "\x89"s,
                                       "K\x07"s,
                                       "M\x00\x01"s,
                                       "J\xff\xff\xff\xff"s,
                                       "J\x00\x00\x01\x00"s,
                                       "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"s,
                                       "\x8b\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"s,
                                       "G?\xf8\x00\x00\x00\x00\x00\x00"s,
                                       "\x8c\x03"s + "a\xc3\xa4",
                                       "X\x00\x01\x00\x00"s + std::string(256, 'x'),
                                       "C\x02\x00\xff"s,
                                       "B\x2c\x01\x00\x00"s + std::string(300, '\x80'),
                                       "(K\x01N\x88t"s,
                                       "(t"s,
                                       "](K\x01\x65"s,
                                       "}(\x8c\x01kK\x01u"s,
                                       "\x8f(K\x01K\x02\x90"s,
                                       "\x8c\x08"
                                       "datetime\x8c\x09timedelta\x93"s,
                                       "\x8c\x08"
                                       "datetime\x8c\x09timedelta\x93(K\x00K\x01K\x02tR"s}) {
        EXPECT_EQ(rewritten(opcodes), opcodes);
    }
}

TEST(PickleCodec, ShorterAndLongerWaysToWriteAreTheSame) {
    EXPECT_EQ(rewritten(")"), "(t");
    EXPECT_EQ(rewritten("K\x01\x85"), "(K\x01t");
    EXPECT_EQ(rewritten("K\x01N\x86"), "(K\x01Nt");
    EXPECT_EQ(rewritten("K\x01N\x88\x87"), "(K\x01N\x88t");
    EXPECT_EQ(rewritten("\x8a\x00"s), "K\x00"s);
    EXPECT_EQ(rewritten("\x8a\x01\xff"s), "J\xff\xff\xff\xff");
    EXPECT_EQ(rewritten("\x8d\x01\x00\x00\x00\x00\x00\x00\x00x"s), "\x8c\x01x");
    EXPECT_EQ(rewritten("\x8e\x01\x00\x00\x00\x00\x00\x00\x00x"s), "C\x01x");
    EXPECT_EQ(rewritten("]K\x01\x61"), "](K\x01\x65");
    EXPECT_EQ(rewritten("}K\x01K\x02s"), "}(K\x01K\x02u");
    EXPECT_EQ(rewritten("\x95\x02\x00\x00\x00\x00\x00\x00\x00K\x05"s), "K\x05");
    EXPECT_EQ(rewritten("](K\x01\x94h\x00\x65"s), "](K\x01K\x01\x65");
}

TEST(PickleCodec, NothingElseIsTakenIn) {
    EXPECT_EQ(refusal(pickle("cos\nsystem\n")),
              "the opcode 0x63 has no place in a rendezvous state, at byte 2 of the pickle");
    EXPECT_EQ(refusal(pickle("\x8c\x02os\x8c\x06system\x93")),
              "'os.system' has no place in a rendezvous state, at byte 14 of the pickle");
    EXPECT_THAT(refusal(pickle("\x8c\x08"
                               "builtins\x8c\x04"
                               "eval\x93")),
                HasSubstr("'builtins.eval'"));
    EXPECT_THAT(refusal(pickle("\x8c\x02\x1b[\x8c\x01x\x93")), Not(HasSubstr("\x1b")));
    for (const char opcode : "cioP'Q\"FILSVdlgpqr0120\x82\x83\x84\x91\x92\x96\x97\x98\xff\x80"s) {
        if (opcode != '\0') EXPECT_THAT(refusal(pickle("N"s + opcode)), HasSubstr("no place")) << int{opcode};
    }
}

TEST(PickleCodec, DamageIsNamed) {
    EXPECT_EQ(refusal(""), "not a pickle");
    EXPECT_EQ(refusal("N."), "not a pickle");
    EXPECT_EQ(refusal("\x80\x01N."), "a pickle of protocol 1; 2 to 5 are read");
    EXPECT_EQ(refusal("\x80\x06N."), "a pickle of protocol 6; 2 to 5 are read");
    EXPECT_EQ(refusal("\x80\x05N."), "read");
    EXPECT_EQ(refusal("\x80\x02N.rest"), "read");
    EXPECT_EQ(refusal("\x80\x04N"), "the pickle breaks off at byte 3");
    EXPECT_THAT(refusal("\x80\x04."), HasSubstr("without a value"));
    EXPECT_THAT(refusal("\x80\x04\x8c\x05"
                        "abc"),
                HasSubstr("breaks off, at byte 2"));
    EXPECT_THAT(refusal("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
                        "abc"),
                HasSubstr("breaks off"));
    EXPECT_THAT(refusal("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffN."), HasSubstr("frame"));
    EXPECT_THAT(refusal(pickle("\x8c\x01\xff")), HasSubstr("not UTF-8"));
    EXPECT_THAT(refusal(pickle("K\x01\x86")), HasSubstr("not there"));
    EXPECT_THAT(refusal(pickle("N(\x85")), HasSubstr("not there"));  // the mark is a floor
    EXPECT_THAT(refusal(pickle("\x94")), HasSubstr("not there"));
    EXPECT_THAT(refusal(pickle("t")), HasSubstr("without a beginning"));
    EXPECT_THAT(refusal(pickle("h\x00"s)), HasSubstr("recalls value 0"));
    EXPECT_THAT(refusal(pickle("j\x00\x00\x00\x80"s)), HasSubstr("recalls value 2147483648"));
    EXPECT_THAT(refusal(pickle("](Nu")), HasSubstr("which is not a dict"));
    EXPECT_THAT(refusal(pickle("N(Ne")), HasSubstr("adds to None"));
    EXPECT_THAT(refusal(pickle("}(Nu")), HasSubstr("key without a value"));
    EXPECT_THAT(refusal(pickle("}(]Nu")), HasSubstr("a list as a key"));
    EXPECT_THAT(refusal(pickle("\x8f(\x8f\x90")), HasSubstr("a set as a key"));
    EXPECT_THAT(refusal(pickle("N)R")), HasSubstr("None in the place of a class"));
    EXPECT_THAT(refusal(pickle("K\x01}b")), HasSubstr("attributes for an int"));
    EXPECT_THAT(refusal(pickle("NN\x93")), HasSubstr("without a name"));
}

TEST(PickleCodec, ValuesThatContainThemselvesAreRefused) {
    EXPECT_THAT(refusal(pickle("]\x94h\x00\x61"s)), HasSubstr("contains itself"));
    EXPECT_THAT(refusal(pickle("]\x94(h\x00\x85\x65"s)), HasSubstr("contains itself"));
}

TEST(PickleCodec, CostsAreBounded) {
    PickleLimits few{.bytes = 1000, .values = 10, .depth = 5, .expanded_bytes = 1000};
    EXPECT_THAT(refusal(pickle(std::string(2000, 'N')), few), HasSubstr("2003 bytes; at most 1000"));
    EXPECT_THAT(refusal(pickle(std::string(11, 'N')), few), HasSubstr("more than 10 values"));
    EXPECT_EQ(refusal(pickle("]]]]]aaaa"), few), "read");
    EXPECT_THAT(refusal(pickle("]]]]]]aaaaa"), few), HasSubstr("deeper than 5"));
    EXPECT_THAT(refusal(pickle("((((((NNNN"), few), HasSubstr("deeper than 5"));
    // Deeper only where a shared value is used again.
    EXPECT_THAT(refusal(pickle("](]]]aa\x94]]]h\x00\x61\x61\x61\x65"s), few), HasSubstr("deeper than 5"));
    // Twenty lists of which each holds the former one ten times.
    std::string laughs = "]\x94";
    for (char level = 0; level < 20; ++level) {
        laughs += "](";
        for (int i = 0; i < 10; ++i) laughs += "h"s + level;
        laughs += "e\x94";
    }
    EXPECT_THAT(refusal(pickle(laughs)), HasSubstr("written out"));
    EXPECT_THAT(refusal(pickle(std::string(15'000'000, '('))), HasSubstr("groups nested deeper"));
    EXPECT_THAT(refusal(pickle(std::string(15'000'000, ']') + std::string(100, 'a'))), HasSubstr("more than 1000000"));
    EXPECT_THAT(refusal(pickle("N"s + std::string(15'000'000, '\x94'))), "read");
}

}  // namespace
}  // namespace cpprun
