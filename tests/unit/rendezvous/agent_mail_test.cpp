// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/agent_mail.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace cpprun {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

const NodeId me{"host_with_lines", 12, 0};
const NodeId other{"fd77::1%eth0", 1, 7};

template <class T>
T wish_of(const MembershipEvent& event) {
    const auto wish = decode_wish(me, encode_wish(event, 3));
    EXPECT_TRUE(wish && wish->event);
    return std::get<T>(*wish->event);
}

template <class T>
T mail_of(const HostMail& mail) {
    const auto read = decode_mail(me, encode_mail(mail, 3));
    EXPECT_TRUE(read);
    return std::get<T>(*read);
}

TEST(NodeText, ReadsAsWhatWasWritten) {
    for (const NodeId& node :
         {me, other, NodeId{"", 0, 0},
          NodeId{"a b\"\n", std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}})
        EXPECT_EQ(parse_node(node_text(node)), node) << node_text(node);
    EXPECT_EQ(node_text(me), "host_with_lines_12_0");
}

TEST(NodeText, IsRefusedWithoutTwoNumbersAtItsEnd) {
    for (const char* text : {"", "_", "__", "a", "a_1", "a_1_", "a__1", "a_1_x", "a_x_1", "a_1_1 ", "a_+1_1", "a_1_0x1",
                             "a_99999999999999999999_1"})
        EXPECT_FALSE(parse_node(text)) << text;
}

TEST(Wishes, OfEachKindArriveAsTheyWere) {
    EXPECT_EQ(wish_of<JoinWish>(JoinWish{other}).node, me) << "the writer is who wrote it, whatever the wish says";
    EXPECT_EQ(wish_of<JoinWish>(JoinWish{me}).node_rank, std::nullopt);
    EXPECT_EQ(wish_of<JoinWish>(JoinWish{me, 0}).node_rank, 0);
    EXPECT_EQ(wish_of<JoinWish>(JoinWish{me, -5}).node_rank, -5);
    EXPECT_EQ(wish_of<JoinWish>(JoinWish{me}).after_round, std::nullopt);
    EXPECT_EQ(wish_of<JoinWish>(JoinWish{me, {}, 7}).after_round, 7);
    EXPECT_EQ(wish_of<JoinWish>(JoinWish{me}).patience, std::nullopt);
    EXPECT_EQ(wish_of<JoinWish>(JoinWish{me, {}, {}, std::chrono::milliseconds(3'000)}).patience,
              std::chrono::milliseconds(3'000));
    EXPECT_EQ(wish_of<LeaveWish>(LeaveWish{me}).node, me);
    wish_of<CloseWish>(CloseWish{});
    EXPECT_THAT(wish_of<StayWish>(StayWish{me, {other, me}}).without, ElementsAre(other, me));
}

TEST(Wishes, AreToldApartByTheirSerial) {
    EXPECT_NE(encode_wish(JoinWish{me}, 1), encode_wish(JoinWish{me}, 2));
    EXPECT_NE(encode_sign_of_life(1), encode_sign_of_life(2));
}

TEST(Wishes, SayWhereTheMailIsRead) {
    EXPECT_EQ(decode_wish(me, encode_sign_of_life(9, 4))->reads, 4);
    EXPECT_EQ(decode_wish(me, encode_wish(JoinWish{me}, 9, 0))->reads, 0);
    EXPECT_EQ(decode_wish(me, encode_sign_of_life(9))->reads, std::nullopt);
    for (const char* reads : {"-1", "9223372036854775807", "\"4\"", "4.5"})
        EXPECT_EQ(decode_wish(me, std::string(R"({"kind":"alive","reads":)") + reads + "}")->reads, std::nullopt);
}

TEST(Wishes, ASignOfLifeWishesNothing) {
    const auto wish = decode_wish(me, encode_sign_of_life(9));
    ASSERT_TRUE(wish);
    EXPECT_FALSE(wish->event);
}

TEST(Wishes, OfUnknownKindsAndNoMessagesAreNone) {
    for (const char* text :
         {"", "{", "null", "[]", "7", "\"join\"", "{}", R"({"kind":7})", R"({"kind":"Join"})", R"({"kind":"dance"})",
          R"({"v":2,"kind":"dance"})", "\xff\xfe", R"({"kind":"join")", R"({"kind":"join"} x)"})
        EXPECT_FALSE(decode_wish(me, text)) << text;
}

TEST(Wishes, OfALaterVersionAreReadWithTheirUnknownFieldsPassedOver) {
    const auto wish = decode_wish(me, R"({"v":2,"kind":"join","node_rank":3,"colour":{"red":[1]}})");
    ASSERT_TRUE(wish && wish->event);
    EXPECT_EQ(std::get<JoinWish>(*wish->event).node_rank, 3);
}

TEST(Wishes, FieldsOfAWrongTypeCountAsNotThere) {
    for (const char* rank : {"\"3\"", "3.5", "null", "[3]", "true", "1e300"}) {
        const auto wish = decode_wish(me, std::string(R"({"kind":"join","node_rank":)") + rank + "}");
        ASSERT_TRUE(wish && wish->event) << rank;
        EXPECT_EQ(std::get<JoinWish>(*wish->event).node_rank, std::nullopt) << rank;
    }
    const auto stay = decode_wish(me, R"({"kind":"stay","without":["a_1_0",7,"nobody",null,["b_1_0"],"c_2_0"]})");
    ASSERT_TRUE(stay && stay->event);
    EXPECT_THAT(std::get<StayWish>(*stay->event).without, ElementsAre(NodeId{"a", 1, 0}, NodeId{"c", 2, 0}));
    const auto nobody = decode_wish(me, R"({"kind":"stay","without":"a_1_0"})");
    ASSERT_TRUE(nobody && nobody->event);
    EXPECT_TRUE(std::get<StayWish>(*nobody->event).without.empty());
}

TEST(Wishes, ThatAreTooLongOrTooDeepAreNone) {
    EXPECT_FALSE(decode_wish(me, R"({"kind":"join","x":")" + std::string(20'000, 'a') + "\"}"));
    EXPECT_FALSE(decode_wish(me, std::string(16'000, '[')));
    const std::string deep = R"({"kind":"join","x":)" + std::string(4'000, '[') + std::string(4'000, ']') + "}";
    EXPECT_FALSE(decode_wish(me, deep));
    EXPECT_TRUE(decode_wish(me, R"({"kind":"join","x":[[[{"y":[]}]]]})"));
}

TEST(Mail, AWordOfAnotherAgentArrivesAsItWasSaid) {
    const PeerWord word = mail_of<PeerWord>(PeerWord{"failed", "node1", "node1 (pid 7)", "a\nb"});
    EXPECT_EQ(word.kind, "failed");
    EXPECT_EQ(word.host, "node1");
    EXPECT_EQ(word.from, "node1 (pid 7)");
    EXPECT_EQ(word.text, "a\nb");
    EXPECT_EQ(mail_of<PeerWord>(PeerWord{"x", "y", "z", std::string(9'000, 'a')}).text.size(),
              failure_report_bytes_max);
}

TEST(Mail, ARoundArrivesWithItsFirstMemberAndTheAddressee) {
    auto members = std::make_shared<RoundMembers>();
    members->round = 41;
    members->by_rank = {other, {"b", 2, 0}, me, {"d", 4, 0}};
    const auto formed = mail_of<RoundFormed>(RoundFormed{me, 2, members, true});
    EXPECT_EQ(formed.node, me);
    EXPECT_EQ(formed.rank, 2);
    EXPECT_TRUE(formed.mixed);
    EXPECT_EQ(formed.members->round, 41);
    EXPECT_THAT(formed.members->by_rank, ElementsAre(other, NodeId{}, me, NodeId{}));
    EXPECT_FALSE(mail_of<RoundFormed>(RoundFormed{me, 2, members, false}).mixed);
}

TEST(Mail, OfARoundDoesNotGrowWithTheJob) {
    auto members = std::make_shared<RoundMembers>();
    members->by_rank.resize(100'000, other);
    EXPECT_LT(encode_mail(RoundFormed{me, 99'999, members, false}, 1).size(), 300U);
    RestartNeeded lost{me, RestartNeeded::Why::lost, std::vector<NodeId>(100'000, other)};
    EXPECT_LT(encode_mail(lost, 1).size(), 500U);
    EXPECT_EQ(mail_of<RestartNeeded>(lost).nodes.size(), 100'000U) << "the number arrives all the same";
}

TEST(Mail, OfARoundThatMakesNoSenseIsNone) {
    const auto formed = [](const char* round, const char* rank, const char* world, const char* first) {
        return decode_mail(me, std::string(R"({"kind":"formed","round":)") + round + R"(,"rank":)" + rank +
                                   R"(,"world":)" + world + R"(,"first":)" + first + "}");
    };
    EXPECT_TRUE(formed("0", "1", "2", "\"a_1_0\""));
    EXPECT_FALSE(formed("0", "2", "2", "\"a_1_0\""));
    EXPECT_FALSE(formed("0", "-1", "2", "\"a_1_0\""));
    EXPECT_FALSE(formed("0", "0", "0", "\"a_1_0\""));
    EXPECT_FALSE(formed("0", "0", "-1", "\"a_1_0\""));
    EXPECT_FALSE(formed("0", "0", "9000000000000", "\"a_1_0\"")) << "must not take that much memory";
    EXPECT_FALSE(formed("0", "18446744073709551615", "18446744073709551615", "\"a_1_0\""));
    EXPECT_FALSE(formed("\"0\"", "1", "2", "\"a_1_0\""));
    EXPECT_FALSE(formed("0", "1", "2", "\"nobody\""));
    EXPECT_FALSE(decode_mail(me, R"({"kind":"formed"})"));
}

TEST(Mail, OfARoundWithoutWordOfTorchrunsAgentsReckonsWithThem) {
    const auto mail = decode_mail(me, R"({"kind":"formed","round":1,"rank":1,"world":2,"first":"a_1_0"})");
    ASSERT_TRUE(mail);
    EXPECT_TRUE(std::get<RoundFormed>(*mail).mixed);
}

TEST(Mail, OfEachOtherKindArrivesAsItWas) {
    for (const auto why : {JoinEnded::Why::closed, JoinEnded::Why::spare_ended, JoinEnded::Why::timed_out})
        EXPECT_EQ(mail_of<JoinEnded>(JoinEnded{other, why}).why, why);
    EXPECT_EQ(mail_of<JoinEnded>(JoinEnded{other}).node, me);
    for (const auto why : {RestartNeeded::Why::newcomers, RestartNeeded::Why::lost, RestartNeeded::Why::left_out}) {
        const auto restart = mail_of<RestartNeeded>(RestartNeeded{me, why, {other}});
        EXPECT_EQ(restart.why, why);
        EXPECT_THAT(restart.nodes, ElementsAre(other));
    }
    EXPECT_EQ(mail_of<RunClosed>(RunClosed{other}).node, me);
    mail_of<NotAMember>(NotAMember{});
    EXPECT_EQ(mail_of<JobFailed>(JobFailed{"rank 3 on a \"b\"\n failed"}).text, "rank 3 on a \"b\"\n failed");
}

TEST(Mail, AReportOfAFailureIsBoundedOnBothSides) {
    const std::string long_text(10'000, 'x');
    EXPECT_EQ(mail_of<FailureReport>(FailureReport{long_text}).text, long_text.substr(0, failure_report_bytes_max));
    EXPECT_EQ(mail_of<FailureReport>(FailureReport{"a\nb"}).text, "a\nb");
    const auto read = decode_mail(me, R"({"v":1,"kind":"report","serial":1,"text":")" + long_text + "\"}");
    ASSERT_TRUE(read);
    EXPECT_EQ(std::get<FailureReport>(*read).text.size(), failure_report_bytes_max);
}

TEST(Mail, ProgressArrivesWithTheTimesThatThereAre) {
    JoinProgress progress;
    progress.here = 3;
    progress.waiting = true;
    progress.nodes = {"a", "b"};
    progress.gives_up_in = milliseconds(1'500);
    const JoinProgress read = mail_of<RoundProgress>(RoundProgress{progress}).progress;
    EXPECT_EQ(read.here, 3);
    EXPECT_TRUE(read.waiting);
    EXPECT_FALSE(read.spare);
    EXPECT_THAT(read.nodes, ElementsAre("a", "b"));
    EXPECT_EQ(read.last_call, std::nullopt);
    EXPECT_EQ(read.gives_up_in, milliseconds(1'500));
}

TEST(Mail, OfUnknownKindsReasonsAndNoMessagesIsNone) {
    for (const char* text :
         {"", "{", "[]", "{}", R"({"kind":"dance"})", R"({"kind":"ended"})", R"({"kind":"ended","why":"tired"})",
          R"({"kind":"restart","why":"fun","nodes":[]})", R"({"kind":["formed"]})", "\x80"})
        EXPECT_FALSE(decode_mail(me, text)) << text;
}

TEST(Mail, TextsOfAnyBytesStayReadable) {
    const std::string text = encode_mail(JobFailed{std::string("caf\xe9 \xff\0 x", 10)}, 1);
    const auto read = decode_mail(me, text);
    ASSERT_TRUE(read);
    EXPECT_THAT(std::get<JobFailed>(*read).text, HasSubstr("caf"));
    for (const char c : text) EXPECT_TRUE(c >= ' ' && c <= '~');
    const NodeId odd{"\xff\xfe", 1, 0};
    EXPECT_TRUE(decode_mail(me, encode_mail(RestartNeeded{me, RestartNeeded::Why::lost, {odd}}, 1)));
}

TEST(Mail, OfAFailureIsBounded) {
    EXPECT_LE(mail_of<JobFailed>(JobFailed{std::string(100'000, 'x')}).text.size(), 2048U);
    JoinProgress progress;
    progress.nodes = std::vector<std::string>(100, "a");
    EXPECT_EQ(mail_of<RoundProgress>(RoundProgress{progress}).progress.nodes.size(), 8U);
}

TEST(Mail, OfEveryLengthCanBeRead) {
    // Names are as long as somebody else wrote them, and a character of theirs takes up to six bytes of the message.
    EXPECT_TRUE(decode_mail(me, encode_mail(JobFailed{std::string(4'000, '\xff')}, 1)));
    EXPECT_TRUE(decode_mail(me, encode_mail(JobFailed{std::string(4'000, '\x01')}, 1)));
    for (const char letter : {'n', '\x01', '\xff'}) {
        const NodeId odd{std::string(5'000, letter), 1, 0};
        EXPECT_TRUE(decode_mail(me, encode_mail(RestartNeeded{me, RestartNeeded::Why::lost, {8, odd}}, 1)));
        EXPECT_TRUE(decode_wish(me, encode_wish(StayWish{me, {8, odd}}, 1)));
        JoinProgress progress;
        progress.nodes = std::vector<std::string>(8, odd.addr);
        EXPECT_TRUE(decode_mail(me, encode_mail(RoundProgress{progress}, 1)));
        auto members = std::make_shared<RoundMembers>();
        members->by_rank = {odd, me};
        EXPECT_TRUE(decode_mail(me, encode_mail(RoundFormed{me, 1, members, false}, 1)));
    }
}

}  // namespace
}  // namespace cpprun
