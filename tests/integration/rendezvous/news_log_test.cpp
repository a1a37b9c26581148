// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rendezvous/news_log.hpp"

#include "integration/rendezvous/coroutines.hpp"
#include "runtime/store/store_host.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace cpprun::test {
namespace {

using boost::asio::awaitable;
using testing::ElementsAre;
using testing::IsEmpty;

/// One agent's end: a link for questions, one that waits, and what it has heard.
struct Agent {
    Agent(Loop& loop, std::uint16_t port) : ops(loop.connected(port)), watch(loop.connected(port)) {
        EXPECT_TRUE(loop.run(log.begin(ops)));
    }
    void follow(Loop& loop, std::chrono::milliseconds patience = std::chrono::seconds(30)) {
        loop.start([this, patience]() -> awaitable<void> {
            std::function<void(const std::string&)> hear = [this](const std::string& text) { heard.push_back(text); };
            const StoreFailure why = co_await log.follow(watch, std::move(hear), patience);
            lost = why.message;
        });
    }

    std::shared_ptr<StoreLink> ops;
    std::shared_ptr<StoreLink> watch;
    NewsLog log{"run/"};
    std::vector<std::string> heard;
    std::string lost;
};

class News : public testing::Test {
  protected:
    std::unique_ptr<StoreHost> host = std::move(StoreHost::start({}, {}).value());
    Loop loop;
};

TEST_F(News, ReachAllFollowersInOrder) {
    Agent a(loop, host->port());
    Agent b(loop, host->port());
    a.follow(loop);
    b.follow(loop);
    for (const char* text : {"1", "2", "3"}) ASSERT_TRUE(loop.run(a.log.publish(a.ops, text)));
    ASSERT_TRUE(loop.until([&] { return a.heard.size() == 3 && b.heard.size() == 3; }));
    EXPECT_THAT(b.heard, ElementsAre("1", "2", "3"));
    EXPECT_EQ(a.heard, b.heard) << "the writer hears of its own";
}

TEST_F(News, OfWhatWasBeforeAreNotHeard) {
    Agent a(loop, host->port());
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(loop.run(a.log.publish(a.ops, std::to_string(i))));
    Agent late(loop, host->port());
    late.follow(loop);
    ASSERT_TRUE(loop.run(a.log.publish(a.ops, "new")));
    ASSERT_TRUE(loop.until([&] { return !late.heard.empty(); }));
    EXPECT_THAT(late.heard, ElementsAre("new"));
}

TEST_F(News, OfManyWritersHaveNoGapsAndNoDoubles) {
    constexpr int writers = 8;
    constexpr int texts = 50;
    std::vector<std::unique_ptr<Agent>> agents;
    for (int i = 0; i < writers; ++i) agents.push_back(std::make_unique<Agent>(loop, host->port()));
    Agent listener(loop, host->port());
    listener.follow(loop);
    for (const auto& agent : agents) agent->follow(loop);
    int written = 0;
    for (int i = 0; i < writers; ++i)
        loop.start([&, i]() -> awaitable<void> {
            Agent& agent = *agents[static_cast<std::size_t>(i)];
            for (int n = 0; n < texts; ++n) {
                std::string text = fmt::format("{}:{}", i, n);  // with a name: see host_desk_test.cpp
                const auto done = co_await agent.log.publish(agent.ops, std::move(text));
                EXPECT_TRUE(done);
                ++written;
                // Nobody may be left behind by more than the log keeps.
                while (static_cast<int>(listener.heard.size()) + 16 < written) {
                    boost::asio::steady_timer pause(loop.io, std::chrono::milliseconds(1));
                    co_await pause.async_wait(boost::asio::use_awaitable);
                }
            }
        });
    const auto all = static_cast<std::size_t>(writers * texts);
    ASSERT_TRUE(loop.until([&] {
        return std::all_of(agents.begin(), agents.end(),
                           [&](const auto& agent) { return agent->heard.size() >= all; }) &&
               listener.heard.size() >= all;
    })) << listener.heard.size()
        << " " << listener.lost;
    for (const auto& agent : agents) EXPECT_EQ(agent->heard, listener.heard) << "one order for all";
    std::vector<std::string> sorted = listener.heard;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::unique(sorted.begin(), sorted.end()) - sorted.begin(), static_cast<std::ptrdiff_t>(all));
    for (int i = 0; i < writers; ++i) {
        std::vector<int> own;
        for (const std::string& text : listener.heard)
            if (text.starts_with(fmt::format("{}:", i))) own.push_back(std::stoi(text.substr(text.find(':') + 1)));
        EXPECT_TRUE(std::is_sorted(own.begin(), own.end())) << "each writer's own order";
    }
}

TEST_F(News, LeaveABoundedNumberOfKeysBehind) {
    Agent a(loop, host->port());
    for (int i = 0; i < 1'500; ++i) ASSERT_TRUE(loop.run(a.log.publish(a.ops, std::to_string(i))));
    EXPECT_LE(host->statistics().keys, 512U + 2U);
}

TEST_F(News, AFollowerThatIsTooFarBehindGoesOnWithTheOldestThatIsLeft) {
    Agent behind(loop, host->port());
    Agent a(loop, host->port());
    for (int i = 0; i < 600; ++i) ASSERT_TRUE(loop.run(a.log.publish(a.ops, std::to_string(i))));
    behind.follow(loop, std::chrono::milliseconds(20));
    ASSERT_TRUE(loop.until([&] { return !behind.heard.empty() && behind.heard.back() == "599"; }));
    EXPECT_EQ(behind.heard.size(), 512U);
    ASSERT_TRUE(loop.run(a.log.publish(a.ops, "new")));
    ASSERT_TRUE(loop.until([&] { return behind.heard.back() == "new"; }));
}

TEST_F(News, EndWithTheLink) {
    Agent a(loop, host->port());
    a.follow(loop);
    loop.pass(std::chrono::milliseconds(20));
    EXPECT_THAT(a.lost, IsEmpty());
    host.reset();
    ASSERT_TRUE(loop.until([&] { return !a.lost.empty(); }));
}

}  // namespace
}  // namespace cpprun::test
