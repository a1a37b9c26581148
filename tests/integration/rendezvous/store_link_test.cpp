// SPDX-License-Identifier: BSD-3-Clause
// The link against our own server, against both of PyTorch's where torch is installed, and against what is no store.
#include "runtime/rendezvous/store_link.hpp"

#include "integration/rendezvous/coroutines.hpp"
#include "integration/store/child.hpp"
#include "integration/store/each_server.hpp"
#include "integration/store/torch_server.hpp"
#include "runtime/store/store_host.hpp"

#include <gmock/gmock.h>

#include <arpa/inet.h>
#include <map>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace cpprun::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Kind = StoreFailure::Kind;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

EachServer<StoreHost>& server(const std::string& kind) {
    return server_of<StoreHost>(kind,
                                [] { return std::unique_ptr<StoreHost>(std::move(StoreHost::start({}, {}).value())); });
}

class Link : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        if (!server(GetParam()).ours && !server(GetParam()).torch) GTEST_SKIP() << "torch is not installed";
    }
    std::shared_ptr<StoreLink> connect() { return loop.connected(server(GetParam()).port()); }
    static std::string key(const std::string& name) { return key_of_test(name); }
    /// The value; a failure ends the test.
    template <class T>
    T run(boost::asio::awaitable<StoreResult<T>> flow) {
        auto result = loop.run(std::move(flow));
        if (!result) throw std::runtime_error(result.error().message);
        if constexpr (!std::is_void_v<T>) return std::move(result).value();
    }
    Loop loop;
};

TEST_P(Link, SetsGetsAddsAndAppends) {
    const auto link = connect();
    const std::string bytes("\0\n\xff", 3);
    run(link->set(key("k"), bytes));
    EXPECT_EQ(run(link->get(key("k"))), bytes);
    run(link->set(key("k"), ""));
    EXPECT_EQ(run(link->get(key("k"))), "");
    EXPECT_EQ(run(link->add(key("n"), 5)), 5);
    EXPECT_EQ(run(link->add(key("n"), -7)), -2);
    EXPECT_EQ(run(link->add(key("n"), 0)), -2);
    run(link->append(key("a"), "x"));
    run(link->append(key("a"), "yz"));
    EXPECT_EQ(run(link->get(key("a"))), "xyz");
}

TEST_P(Link, ComparesChecksAndRemoves) {
    const auto link = connect();
    EXPECT_EQ(run(link->compare_set(key("k"), "", "a")), "a");
    EXPECT_EQ(run(link->compare_set(key("k"), "x", "b")), "a");
    EXPECT_EQ(run(link->compare_set(key("k"), "a", "b")), "b");
    EXPECT_TRUE(run(link->check(key("k"))));
    EXPECT_FALSE(run(link->check(std::vector<std::string>{key("k"), key("other")})));
    EXPECT_TRUE(run(link->remove(key("k"))));
    EXPECT_FALSE(run(link->remove(key("k"))));
    EXPECT_FALSE(run(link->check(key("k"))));
}

TEST_P(Link, HandlesManyKeysAtOnce) {
    const auto link = connect();
    std::vector<std::string> keys;
    for (int i = 0; i < 2'000; ++i) keys.push_back(key(std::to_string(i)));
    run(link->multi_set(keys, keys));
    EXPECT_EQ(run(link->multi_get(keys)), keys);
    EXPECT_TRUE(run(link->check(keys)));
    run(link->wait(keys, 20s));
}

TEST_P(Link, MovesValuesOf8MiB) {
    const auto link = connect();
    const std::string value(std::size_t{8} << 20U, 'v');
    run(link->set(key("big"), value));
    EXPECT_EQ(run(link->get(key("big"))), value);
    EXPECT_TRUE(run(link->remove(key("big"))));
}

TEST_P(Link, CountsAnAgentAsAWorkerWhereTorchDoes) {
    const auto link = connect();
    const auto before = run(link->announce_worker());
    EXPECT_EQ(run(connect()->announce_worker()), before + 1);
}

TEST_P(Link, AWaitThatIsOverLeavesItUsable) {
    const auto link = connect();
    for (const auto timeout : {0ms, 1ms, 20ms}) {
        const auto begin = Clock::now();
        const auto waited = loop.run(link->wait(key("never"), timeout));
        ASSERT_FALSE(waited);
        EXPECT_EQ(waited.error().kind, Kind::timeout) << waited.error().message;
        EXPECT_THAT(waited.error().message, HasSubstr("never"));
        EXPECT_LT(since(begin), 5s);
        EXPECT_TRUE(link->usable());
        EXPECT_GT(run(link->add(key("n"), 1)), 0);
    }
}

TEST_P(Link, AWaitHearsOfAKeyOfAnother) {
    const auto link = connect();
    const auto other = connect();
    std::optional<StoreResult<void>> waited;
    loop.start([&]() -> boost::asio::awaitable<void> { waited = co_await link->wait(key("k"), 20s); });
    loop.pass(50ms);
    EXPECT_FALSE(waited);
    run(other->set(key("k"), "1"));
    ASSERT_TRUE(loop.until([&] { return waited.has_value(); }));
    EXPECT_TRUE(waited->has_value());
    EXPECT_EQ(run(link->get(key("k"))), "1");
}

TEST_P(Link, ACancelledWaitThatCrossesItsReleaseIsEither) {
    const auto link = connect();
    const auto other = connect();
    int came = 0;
    int late = 0;
    for (int turn = 0; turn < 300; ++turn) {
        const std::string name = key(std::to_string(turn));
        std::optional<StoreResult<void>> waited;
        // The time is over at about the moment at which the key comes.
        loop.start([&]() -> boost::asio::awaitable<void> { waited = co_await link->wait(name, 2ms); });
        loop.start([&]() -> boost::asio::awaitable<void> {
            boost::asio::steady_timer timer(loop.io, std::chrono::microseconds(1'500 + turn * 5));
            co_await timer.async_wait(boost::asio::use_awaitable);
            static_cast<void>(co_await other->set(name, "1"));
        });
        ASSERT_TRUE(loop.until([&] { return waited.has_value(); }));
        if (!*waited) ASSERT_EQ(waited->error().kind, Kind::timeout) << waited->error().message;
        ++(*waited ? came : late);
        run(link->wait(name, 20s));
        // Nothing of the wait is left in the stream.
        ASSERT_EQ(run(link->get(name)), "1") << turn;
    }
    RecordProperty("came", came);
    RecordProperty("late", late);
}

TEST_P(Link, RequestsThatComeTogetherTakeTurns) {
    const auto link = connect();
    int done = 0;
    std::int64_t sum = 0;
    for (int i = 0; i < 100; ++i)
        loop.start([&]() -> boost::asio::awaitable<void> {
            std::string name = key("n");  // with a name: GCC 12 makes wrong code of temporaries in a co_await
            const auto added = co_await link->add(std::move(name), 1);
            sum = std::max(sum, added.value());
            ++done;
        });
    ASSERT_TRUE(loop.until([&] { return done == 100; }));
    EXPECT_EQ(sum, 100);
}

TEST_P(Link, ALinkThatIsClosedEndsWhatIsUnderWay) {
    const auto link = connect();
    std::vector<StoreFailure> failed;
    loop.start([&]() -> boost::asio::awaitable<void> {
        const auto waited = co_await link->wait(key("never"), std::chrono::milliseconds::max());
        failed.push_back(waited.error());
    });
    loop.start([&]() -> boost::asio::awaitable<void> {
        const auto set = co_await link->set(key("k"), "after the wait");
        failed.push_back(set.error());
    });
    loop.pass(20ms);
    link->close();
    ASSERT_TRUE(loop.until([&] { return failed.size() == 2; }));
    for (const StoreFailure& failure : failed) EXPECT_EQ(failure.kind, Kind::connection);
    EXPECT_FALSE(link->usable());
}

INSTANTIATE_TEST_SUITE_P(Servers, Link, testing::Values("ours", "libuv", "classic"),
                         [](const auto& given) { return std::string(given.param); });

// --- what is no store ---

/// A server on loopback with one thread: takes connections and does with each what the test says.
class FakeServer {
  public:
    explicit FakeServer(std::function<void(int)> serve) : serve_(std::move(serve)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(listener_, 64) != 0 ||
            ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
            throw std::runtime_error("no listener");
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] {
            for (;;) {
                const int peer = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
                if (peer < 0) return;
                peers_.push_back(peer);
                serve_(peer);
            }
        });
    }
    ~FakeServer() {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
        for (const int peer : peers_) ::close(peer);
    }
    std::uint16_t port() const { return port_; }

    /// Answers the greeting as a store does: handshake, ping, nonce.
    static bool greet(int peer) {
        std::string bytes;
        // 1 + 4 bytes of the handshake, 1 + 4 of the ping, whose nonce is sent back.
        return read(peer, bytes, 10) && ::send(peer, bytes.data() + 6, 4, MSG_NOSIGNAL) == 4;
    }
    static bool read(int peer, std::string& into, std::size_t count) {
        into.resize(count);
        return ::recv(peer, into.data(), count, MSG_WAITALL) == static_cast<ssize_t>(count);
    }
    static void write(int peer, const std::string& bytes) {
        static_cast<void>(::send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    }

  private:
    std::function<void(int)> serve_;
    int listener_ = -1;
    std::uint16_t port_ = 0;
    std::vector<int> peers_;
    std::thread thread_;
};

TEST(NoStore, ThatNobodyListensAtIsTriedUntilTheTimeIsOver) {
    Loop loop;
    std::uint16_t port = 0;
    {
        port = FakeServer([](int) {}).port();
    }
    auto settings = StoreLinkSettings{.host = "127.0.0.1", .port = port, .connect_timeout = 600ms};
    int retries = 0;
    settings.on_retry = [&](const std::string& problem, std::chrono::milliseconds) {
        ++retries;
        EXPECT_THAT(problem, HasSubstr("refused"));
    };
    StoreLink link(loop.io.get_executor(), settings);
    const auto begin = Clock::now();
    const auto done = loop.run(link.connect());
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, Kind::timeout);
    EXPECT_THAT(done.error().message, testing::AllOf(HasSubstr("refused"), HasSubstr("tries")));
    EXPECT_GE(retries, 2);
    EXPECT_LT(since(begin), 10s);
    EXPECT_FALSE(loop.run(link.set("k", "v")));
}

TEST(NoStore, ThatComesLaterIsFound) {
    Loop loop;
    auto early = StoreHost::start({}, {}).value()->port();
    const auto link = loop.link(early);
    std::optional<StoreResult<void>> done;
    loop.start([&]() -> boost::asio::awaitable<void> { done = co_await link->connect(); });
    loop.pass(200ms);
    EXPECT_FALSE(done);
    ListenSpec spec;
    spec.port = early;
    const auto host = StoreHost::start(spec, {});
    ASSERT_TRUE(host) << host.error().message;
    ASSERT_TRUE(loop.until([&] { return done.has_value(); }));
    EXPECT_TRUE(done->has_value());
}

TEST(NoStore, ThatTakesConnectionsAndIsSilentIsGivenUp) {
    Loop loop;
    FakeServer silent([](int) {});
    const auto link = loop.link(silent.port(), 100ms, 500ms);
    const auto begin = Clock::now();
    const auto done = loop.run(link->connect());
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr("it takes connections and does not answer"));
    EXPECT_LT(since(begin), 10s);
}

TEST(NoStore, ThatAnswersOtherwiseIsNamedAsSuch) {
    Loop loop;
    for (const char* answer : {"HTTP/1.1 400 Bad Request\r\n\r\n", "\0\0\0\0", "x"}) {
        FakeServer other([&](int peer) {
            FakeServer::write(peer, answer);
            ::shutdown(peer, SHUT_WR);
        });
        const auto done = loop.run(loop.link(other.port(), 1500ms, 1s)->connect());
        ASSERT_FALSE(done);
        EXPECT_THAT(done.error().message, HasSubstr("what listens there is no store"));
    }
}

using Operation = std::function<boost::asio::awaitable<StoreFailure>(StoreLink&)>;

template <class T>
boost::asio::awaitable<StoreFailure> failure_of(boost::asio::awaitable<StoreResult<T>> flow) {
    auto done = co_await std::move(flow);
    if (done) co_return StoreFailure{Kind::invalid, "it succeeded"};
    co_return done.error();
}

std::map<std::string, Operation> questions() {
    return {{"get", [](StoreLink& link) { return failure_of(link.get("k")); }},
            {"add", [](StoreLink& link) { return failure_of(link.add("k", 1)); }},
            {"compare_set", [](StoreLink& link) { return failure_of(link.compare_set("k", "a", "b")); }},
            {"check", [](StoreLink& link) { return failure_of(link.check("k")); }},
            {"wait", [](StoreLink& link) { return failure_of(link.wait("k", 50ms)); }},
            {"multi_get",
             [](StoreLink& link) {
                 return failure_of(link.multi_get({"k", "l"}));
             }},
            {"remove", [](StoreLink& link) { return failure_of(link.remove("k")); }},
            {"announce", [](StoreLink& link) { return failure_of(link.announce_worker()); }}};
}

TEST(NoStore, ThatStopsAnsweringBreaksTheLinkInTime) {
    Loop loop;
    FakeServer frozen([](int peer) { FakeServer::greet(peer); });
    for (const auto& [name, question] : questions()) {
        const auto link = loop.connected(frozen.port(), 100ms);
        const auto begin = Clock::now();
        const StoreFailure failed = loop.run(question(*link));
        EXPECT_EQ(failed.kind, Kind::connection) << name << ": " << failed.message;
        EXPECT_THAT(failed.message, HasSubstr("it does not answer")) << name;
        EXPECT_LT(since(begin), 5s) << name;
        EXPECT_FALSE(link->usable()) << name;
    }
}

TEST(NoStore, ThatClosesIsToldApart) {
    Loop loop;
    FakeServer closing([](int peer) {
        std::string byte;
        if (FakeServer::greet(peer) && FakeServer::read(peer, byte, 1)) ::shutdown(peer, SHUT_RDWR);
    });
    for (const auto& [name, question] : questions()) {
        const auto link = loop.connected(closing.port());
        const StoreFailure failed = loop.run(question(*link));
        EXPECT_EQ(failed.kind, Kind::connection) << name << ": " << failed.message;
        EXPECT_THAT(failed.message, AnyOf(HasSubstr("it has closed the connection"), HasSubstr("is lost"))) << name;
    }
}

TEST(NoStore, ThatSendsNonsenseLengthsIsRefusedWithoutTakingMemory) {
    Loop loop;
    for (const unsigned char top : {0xff, 0x7f, 0x00}) {
        std::string length(8, '\xff');
        length[7] = static_cast<char>(top);
        if (top == 0) length.assign("\0\0\0\x10\0\0\0\0", 8);  // 256 MiB
        FakeServer lying([&](int peer) {
            std::string byte;
            if (FakeServer::greet(peer) && FakeServer::read(peer, byte, 1)) FakeServer::write(peer, length);
        });
        for (const char* name : {"get", "compare_set", "multi_get"}) {
            const auto link = loop.connected(lying.port(), 2s);
            const StoreFailure failed = loop.run(questions().at(name)(*link));
            EXPECT_EQ(failed.kind, Kind::protocol) << name << ": " << failed.message;
            EXPECT_THAT(failed.message, HasSubstr("an answer of ")) << name;
        }
    }
}

TEST(NoStore, ThatAnswersNonsenseToAWaitOrACheckIsRefused) {
    Loop loop;
    FakeServer odd([](int peer) {
        std::string byte;
        if (FakeServer::greet(peer) && FakeServer::read(peer, byte, 1)) FakeServer::write(peer, "\x07\x07");
    });
    for (const char* name : {"check", "wait"}) {
        const auto link = loop.connected(odd.port(), 2s);
        const StoreFailure failed = loop.run(questions().at(name)(*link));
        EXPECT_EQ(failed.kind, Kind::protocol) << name << ": " << failed.message;
    }
}

TEST(NoStore, ThatTakesNoBytesIsBounded) {
    Loop loop;
    FakeServer full([](int peer) { FakeServer::greet(peer); });
    const auto link = loop.connected(full.port(), 300ms);
    const auto begin = Clock::now();
    const auto set = loop.run(link->set("k", std::string(std::size_t{64} << 20U, 'x')));
    ASSERT_FALSE(set);
    EXPECT_THAT(set.error().message, HasSubstr("it takes no bytes"));
    EXPECT_LT(since(begin), 10s);
}

TEST(NoStore, IsNoLongerThereWhenItsProcessIsGone) {
    Loop loop;
    auto host = std::move(StoreHost::start({}, {}).value());
    const auto link = loop.connected(host->port());
    std::optional<StoreResult<void>> waited;
    loop.start([&]() -> boost::asio::awaitable<void> {
        waited = co_await link->wait("never", std::chrono::milliseconds::max());
    });
    loop.pass(20ms);
    host.reset();
    ASSERT_TRUE(loop.until([&] { return waited.has_value(); }));
    EXPECT_EQ(waited->error().kind, Kind::connection);
}

}  // namespace
}  // namespace cpprun::test
