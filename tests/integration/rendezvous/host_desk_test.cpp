// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rendezvous/host_desk.hpp"

#include "integration/rendezvous/coroutines.hpp"
#include "runtime/rendezvous/news_log.hpp"
#include "runtime/store/store_host.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace cpprun::test {
namespace {

using namespace std::chrono_literals;
using boost::asio::awaitable;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const NodeId a{"node_a", 1, 0};
const NodeId b{"node_b", 2, 0};

/// A led agent's end: a link for its wishes, and its mailbox.
struct Led {
    Led(Loop& its_loop, std::uint16_t its_port, NodeId id)
        : loop(its_loop), node(std::move(id)), port(its_port), box("cpprun/1/run/to/" + node_text(node) + "/") {
        connect();
    }
    ~Led() { hang_up(); }
    void connect() {
        ops = loop.connected(port);
        watch = loop.connected(port);
        read();
    }
    void read() {
        loop.start([this, link = watch]() -> awaitable<void> {
            std::function<void(const std::string&)> hear = [this](const std::string& text) {
                if (const auto read = decode_mail(node, text)) mail.push_back(*read);
            };
            co_await box.follow(link, std::move(hear));
        });
    }
    void write(const std::string& text) { EXPECT_TRUE(loop.run(ops->set("cpprun/live/run/" + node_text(node), text))); }
    void wish(const MembershipEvent& event) { write(encode_wish(event, serial++, box.position())); }
    void sign() { write(encode_sign_of_life(serial++, box.position())); }
    void hang_up() {
        ops->close();
        watch->close();
    }

    Loop& loop;
    NodeId node;
    std::uint16_t port;
    NewsLog box;
    std::shared_ptr<StoreLink> ops;
    std::shared_ptr<StoreLink> watch;
    std::int64_t serial = 0;
    std::vector<HostMail> mail;
};

class Desk : public testing::Test {
  protected:
    void SetUp() override { begin(10s); }
    void begin(std::chrono::milliseconds silent_after) {
        if (desk) desk->stop();
        host.reset();
        desk = std::make_unique<HostDesk>(
            loop.io.get_executor(),
            HostDeskSettings{"cpprun/live/run/", "cpprun/1/run/to/", "torch.rendezvous.run", 300ms, silent_after},
            [this](std::vector<MembershipEvent> events) {
                ++feeds;
                for (auto& event : events) heard.push_back(std::move(event));
            });
        ListenSpec spec;
        spec.observed_prefixes = {"/cpprun/live/", "/torch.rendezvous.run"};
        spec.ephemeral_prefixes = {"/cpprun/live/"};
        spec.observer = [this](const StoreEvent& event) { desk->observe(event); };
        host = std::move(StoreHost::start(spec, {}).value());
        desk->start(*host);
    }
    void TearDown() override {
        desk->stop();
        host.reset();
        loop.pass(10ms);
    }
    template <class T>
    std::vector<T> of() const {
        std::vector<T> found;
        for (const MembershipEvent& event : heard)
            if (const T* one = std::get_if<T>(&event)) found.push_back(*one);
        return found;
    }
    bool comes(const std::function<bool()>& fact) { return loop.until(fact, 20s); }

    Loop loop;
    std::unique_ptr<HostDesk> desk;
    std::unique_ptr<StoreHost> host;
    std::vector<MembershipEvent> heard;
    int feeds = 0;
};

TEST_F(Desk, HearsWishesOfTheNodesWhoseKeysTheyAre) {
    Led agent(loop, host->port(), a);
    agent.wish(JoinWish{b, 3});
    ASSERT_TRUE(comes([&] { return !heard.empty(); }));
    const auto joins = of<JoinWish>();
    ASSERT_THAT(joins, SizeIs(1));
    EXPECT_EQ(joins[0].node, a);
    EXPECT_EQ(joins[0].node_rank, 3);
    EXPECT_TRUE(desk->leads(a));
    EXPECT_THAT(desk->led(), ElementsAre(a));
    agent.wish(LeaveWish{a});
    ASSERT_TRUE(comes([&] { return !of<LeaveWish>().empty(); }));
    EXPECT_THAT(desk->led(), IsEmpty());
}

TEST_F(Desk, HearsThatSomebodyElseChangedTheState) {
    const auto link = loop.connected(host->port());
    ASSERT_TRUE(loop.run(link->set("torch.rendezvous.run", "x")));
    ASSERT_TRUE(comes([&] { return !of<StateChanged>().empty(); }));
}

TEST_F(Desk, PassesOverWhatIsNoWish) {
    const auto link = loop.connected(host->port());
    for (const char* key : {"cpprun/live/run/nobody", "cpprun/live/run/", "cpprun/live/other/node_a_1_0"})
        ASSERT_TRUE(loop.run(link->set(key, encode_wish(JoinWish{a}, 1))));
    for (const std::string& text : {std::string("{"), std::string(), std::string(10'000, 'x')})
        ASSERT_TRUE(loop.run(link->set("cpprun/live/run/" + node_text(a), text)));
    ASSERT_TRUE(loop.run(link->check("x")));
    loop.pass(100ms);
    EXPECT_THAT(heard, IsEmpty());
}

TEST_F(Desk, ManyWishesOfAMomentAreFewChanges) {
    std::vector<std::unique_ptr<Led>> agents;
    for (int i = 0; i < 50; ++i) agents.push_back(std::make_unique<Led>(loop, host->port(), NodeId{"n", i, 0}));
    for (auto& agent : agents)
        loop.start([link = agent->ops, node = agent->node]() -> awaitable<void> {
            // With names: GCC 12 makes wrong code of temporaries in a co_await.
            std::string key = "cpprun/live/run/" + node_text(node);
            std::string text = encode_wish(JoinWish{node}, 1);
            co_await link->set(std::move(key), std::move(text));
        });
    ASSERT_TRUE(comes([&] { return of<JoinWish>().size() == 50; }));
    EXPECT_LT(feeds, 45);
}

TEST_F(Desk, DeliversMailInOrder) {
    Led agent(loop, host->port(), a);
    agent.wish(JoinWish{a});
    ASSERT_TRUE(comes([&] { return !heard.empty(); }));
    for (int i = 0; i < 20; ++i) {
        desk->post(a, JobFailed{std::to_string(i)});
        desk->flush();
        ASSERT_TRUE(comes([&] { return agent.mail.size() == static_cast<std::size_t>(i) + 1; }));
    }
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(std::get<JobFailed>(agent.mail[static_cast<std::size_t>(i)]).text, std::to_string(i));
    desk->post(b, JobFailed{"nobody has this box"});
    desk->flush();
    agent.sign();
    EXPECT_TRUE(comes([&] { return host->statistics().keys < 12; })) << "read mail does not pile up";
}

TEST_F(Desk, KeepsMailUntilItIsConfirmedToBeRead) {
    Led led(loop, host->port(), a);
    led.wish(JoinWish{a});
    ASSERT_TRUE(comes([&] { return !heard.empty(); }));
    // More at once than were ever kept for one that reads.
    for (int i = 0; i < 60; ++i) desk->post(a, JobFailed{std::to_string(i)});
    desk->flush();
    ASSERT_TRUE(comes([&] { return led.mail.size() == 60; })) << led.mail.size();
    const auto before = host->statistics().keys;
    led.sign();
    ASSERT_TRUE(loop.until([&] { return host->statistics().keys + 60 <= before; })) << host->statistics().keys;
}

TEST_F(Desk, ANodeThatDoesNotReadItsMailIsGoneAndCanComeBack) {
    Led led(loop, host->port(), a);
    led.wish(JoinWish{a});
    ASSERT_TRUE(loop.until([&] { return !heard.empty(); }));
    desk->post(a, JobFailed{"read"});
    desk->flush();
    ASSERT_TRUE(comes([&] { return led.mail.size() == 1; }));
    led.watch->close();
    for (int i = 0; i < 80; ++i) desk->post(a, JobFailed{std::to_string(i)});
    desk->flush();
    ASSERT_TRUE(loop.until([&] {
        return std::any_of(heard.begin(), heard.end(),
                           [](const auto& event) { return std::holds_alternative<NodeGone>(event); });
    }));
    led.watch = loop.connected(host->port());
    led.read();
    led.mail.clear();
    ASSERT_TRUE(loop.until([&] {
        led.sign();
        loop.pass(20ms);
        return !led.mail.empty() && std::holds_alternative<NotAMember>(led.mail.back());
    }));
}

TEST_F(Desk, ANodeWhoseConnectionsAreClosedIsGoneAfterItsGrace) {
    Led agent(loop, host->port(), a);
    agent.wish(JoinWish{a});
    ASSERT_TRUE(comes([&] { return !heard.empty(); }));
    const auto begin = std::chrono::steady_clock::now();
    agent.hang_up();
    ASSERT_TRUE(comes([&] { return !of<NodeGone>().empty(); }));
    EXPECT_GE(since(begin), 290ms);
    EXPECT_EQ(of<NodeGone>()[0].node, a);
    EXPECT_THAT(desk->led(), IsEmpty());
}

TEST_F(Desk, ANodeThatComesBackInTimeWasNeverGone) {
    Led agent(loop, host->port(), a);
    agent.wish(JoinWish{a});
    ASSERT_TRUE(comes([&] { return !heard.empty(); }));
    agent.hang_up();
    agent.connect();
    agent.sign();
    loop.pass(600ms);
    EXPECT_THAT(of<NodeGone>(), IsEmpty());
    EXPECT_THAT(desk->led(), ElementsAre(a));
}

TEST_F(Desk, ANodeThatHasLeftIsNotMissed) {
    Led agent(loop, host->port(), a);
    agent.wish(JoinWish{a});
    agent.wish(LeaveWish{a});
    agent.hang_up();
    loop.pass(600ms);
    EXPECT_THAT(of<NodeGone>(), IsEmpty());
    EXPECT_FALSE(desk->leads(a));
}

TEST_F(Desk, ASilentNodeIsGoneThoughItsConnectionsStand) {
    begin(500ms);
    Led agent(loop, host->port(), a);
    agent.wish(JoinWish{a});
    ASSERT_TRUE(comes([&] { return !of<NodeGone>().empty(); }));
    EXPECT_EQ(of<NodeGone>()[0].node, a);
}

TEST_F(Desk, ASilentNodeThatIsHeardAgainIsToldThatItIsNoMember) {
    begin(500ms);
    Led agent(loop, host->port(), a);
    agent.wish(JoinWish{a});
    ASSERT_TRUE(comes([&] { return !heard.empty(); }));
    desk->post(a, RunClosed{a});
    desk->flush();
    ASSERT_TRUE(comes([&] { return !of<NodeGone>().empty(); }));
    agent.sign();
    ASSERT_TRUE(comes([&] { return agent.mail.size() == 2; }));
    EXPECT_TRUE(std::holds_alternative<NotAMember>(agent.mail[1]));
    agent.wish(JoinWish{a});
    ASSERT_TRUE(comes([&] { return of<JoinWish>().size() == 2; }));
    EXPECT_THAT(desk->led(), ElementsAre(a));
}

// Its workers would run on in a world of their own.
TEST_F(Desk, ANodeThatComesBackTooLateIsToldThatItIsNoMember) {
    for (const bool had_mail : {true}) {
        heard.clear();
        Led agent(loop, host->port(), NodeId{"late", had_mail, 0});
        agent.wish(JoinWish{agent.node});
        ASSERT_TRUE(comes([&] { return !heard.empty(); }));
        if (had_mail) {
            desk->post(agent.node, JobFailed{"0"});
            desk->flush();
            ASSERT_TRUE(comes([&] { return agent.mail.size() == 1; }));
        }
        agent.hang_up();
        ASSERT_TRUE(comes([&] { return !of<NodeGone>().empty(); }));
        agent.connect();
        agent.sign();
        ASSERT_TRUE(comes([&] { return agent.mail.size() == (had_mail ? 2U : 1U); }))
            << "its mail goes on where it was";
        EXPECT_TRUE(std::holds_alternative<NotAMember>(agent.mail.back()));
        agent.wish(JoinWish{agent.node});
        ASSERT_TRUE(comes([&] { return of<JoinWish>().size() == 2; }));
        desk->post(agent.node, JobFailed{"new"});
        desk->flush();
        ASSERT_TRUE(
            comes([&] { return std::holds_alternative<JobFailed>(agent.mail.back()) && agent.mail.size() > 1; }));
    }
}

// What it had not read is gone; it must not wait for that.
TEST_F(Desk, ANodeThatWasCutOffWithUnreadMailIsToldThatItIsNoMember) {
    begin(500ms);
    Led agent(loop, host->port(), a);
    agent.wish(JoinWish{a});
    ASSERT_TRUE(comes([&] { return !heard.empty(); }));
    agent.watch->close();
    loop.pass(20ms);
    for (int i = 0; i < 3; ++i) desk->post(a, JobFailed{"unread"});
    desk->flush();
    ASSERT_TRUE(comes([&] { return !of<NodeGone>().empty(); }));
    agent.watch = loop.connected(host->port());
    agent.read();
    agent.sign();
    agent.sign();
    loop.pass(200ms);
    agent.wish(JoinWish{a});
    ASSERT_TRUE(comes([&] { return desk->led() == std::vector<NodeId>{a}; }));
    desk->post(a, RunClosed{a});
    desk->flush();
    ASSERT_TRUE(comes([&] { return !agent.mail.empty() && std::holds_alternative<RunClosed>(agent.mail.back()); }));
}

TEST_F(Desk, LeavesNothingOfANodeInTheStore) {
    const std::size_t before = host->statistics().keys;
    for (int i = 0; i < 20; ++i) {
        Led agent(loop, host->port(), NodeId{"n", i, 0});
        agent.wish(JoinWish{agent.node});
        ASSERT_TRUE(comes([&] { return desk->leads(agent.node); }));
        for (std::size_t n = 1; n <= 12; ++n) {
            desk->post(agent.node, JobFailed{"x"});
            desk->flush();
            ASSERT_TRUE(comes([&] { return agent.mail.size() == n; }));
        }
        if (i % 2 == 0) agent.wish(LeaveWish{agent.node});
        agent.hang_up();
        ASSERT_TRUE(comes([&] { return desk->led().empty(); }));
    }
    EXPECT_TRUE(comes([&] { return host->statistics().keys == before; })) << host->statistics().keys;
}

}  // namespace
}  // namespace cpprun::test
