// SPDX-License-Identifier: BSD-3-Clause
// The client and the public interface, against our own server and, where torch is installed, against both of PyTorch's.
#include "cpprun/store.hpp"
#include "integration/store/child.hpp"
#include "integration/store/each_server.hpp"
#include "integration/store/raw_client.hpp"
#include "integration/store/torch_server.hpp"
#include "runtime/store/listener.hpp"
#include "runtime/store/store_host.hpp"
#include "runtime/store/tcp_store_client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>

namespace cpprun::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

EachServer<StoreServer>& server(const std::string& kind) {
    return server_of<StoreServer>(kind, [] { return std::make_unique<StoreServer>(); });
}

class Client : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        if (!server(GetParam()).ours && !server(GetParam()).torch) GTEST_SKIP() << "torch is not installed";
    }
    std::shared_ptr<TcpStore> connect() {
        TcpStoreOptions options;
        options.port = server(GetParam()).port();
        options.timeout = 20s;
        options.connect_timeout = 20s;
        options.reply_timeout = 20s;
        return std::make_shared<TcpStore>(options);
    }
    bool is(const char* kind) const { return std::string(GetParam()) == kind; }
    static std::string key(const std::string& name) { return key_of_test(name); }
};

TEST_P(Client, SetsGetsAndAdds) {
    const auto store = connect();
    const std::string bytes("\0\n\xff", 3);
    store->set(key("k"), bytes);
    EXPECT_EQ(store->get(key("k")), bytes);
    store->set(key("empty"), "");
    EXPECT_EQ(store->get(key("empty")), "");
    EXPECT_EQ(store->add(key("n"), 5), 5);
    EXPECT_EQ(store->add(key("n"), -7), -2);
    EXPECT_EQ(store->get(key("n")), "-2");
    EXPECT_GE(store->number_of_keys(), 3);
}

TEST_P(Client, ComparesChecksAndRemoves) {
    const auto store = connect();
    EXPECT_EQ(store->compare_set(key("k"), "", "a"), "a");
    EXPECT_EQ(store->compare_set(key("k"), "x", "b"), "a");
    EXPECT_EQ(store->compare_set(key("k"), "a", "b"), "b");
    EXPECT_TRUE(store->check({key("k")}));
    EXPECT_TRUE(store->check({}));
    EXPECT_FALSE(store->check({key("k"), key("other")}));
    EXPECT_TRUE(store->remove(key("k")));
    EXPECT_FALSE(store->remove(key("k")));
}

TEST_P(Client, AppendsAndHandlesManyKeysAtOnce) {
    const auto store = connect();
    store->append(key("a"), "xy");
    store->append(key("a"), "z");
    store->multi_set({key("m1"), key("m2")}, {"A", ""});
    EXPECT_THAT(store->multi_get({key("m1"), key("m2"), key("a")}), ElementsAre("A", "", "xyz"));
    std::vector<std::string> keys;
    for (int i = 0; i < 2000; ++i) keys.push_back(key(std::to_string(i)));
    store->multi_set(keys, keys);
    EXPECT_EQ(store->multi_get(keys), keys);
}

TEST_P(Client, MovesValuesOf8MiB) {
    const auto store = connect();
    const std::string value(std::size_t{8} << 20U, 'v');
    store->set(key("big"), value);
    EXPECT_EQ(store->get(key("big")), value);
    EXPECT_TRUE(store->remove(key("big")));
}

TEST_P(Client, ATimedOutWaitLeavesItUsable) {
    const auto store = connect();
    for (const auto timeout : {0ms, 1ms, 20ms}) {
        try {
            store->wait({key("never")}, timeout);
            ADD_FAILURE() << "came";
        } catch (const StoreError& error) {
            EXPECT_EQ(error.kind(), StoreError::Kind::timeout);
            EXPECT_THAT(error.what(), HasSubstr("the key '" + key("never") + "' did not come within"));
        }
        EXPECT_EQ(store->add(key("n"), 1) > 0, true);
    }
    EXPECT_THROW(store->get(key("never"), 1ms), StoreError);
    EXPECT_THROW(store->multi_get({key("never")}, 1ms), StoreError);
    store->set(key("k"), "v");
    EXPECT_EQ(store->get(key("k")), "v");
}

TEST_P(Client, AWaitAndItsCancelNeverGetOutOfStep) {
    // The key comes at about the moment at which the wait is given up.
    const auto waiter = connect();
    const auto setter = connect();
    int released = 0;
    for (int i = 0; i < 300; ++i) {
        const std::string name = key(std::to_string(i));
        std::jthread setting([&] { setter->set(name, "v"); });
        try {
            waiter->wait({name}, std::chrono::milliseconds(i % 2));
            ++released;
        } catch (const StoreError& error) {
            EXPECT_EQ(error.kind(), StoreError::Kind::timeout) << error.what();
        }
        setting.join();
        ASSERT_EQ(waiter->add(key("count"), 1), i + 1);
    }
    EXPECT_GT(released, 0);
}

TEST_P(Client, BarriersReleaseTogether) {
    std::atomic<int> through{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            const auto store = connect();
            store->barrier(key("b"), 4);
            ++through;
        });
    }
    threads.clear();
    EXPECT_EQ(through, 4);
    EXPECT_THROW(connect()->barrier(key("alone"), 2, 1ms), StoreError);
}

TEST_P(Client, QueuesAreFirstInFirstOut) {
    if (is("classic")) GTEST_SKIP() << "torch's classic server has no queues";
    const auto store = connect();
    store->queue_push(key("q"), "one");
    store->queue_push(key("q"), "");
    EXPECT_EQ(store->queue_length(key("q")), 2);
    EXPECT_EQ(store->queue_pop(key("q")), "one");
    EXPECT_EQ(store->try_queue_pop(key("q")), "");
    EXPECT_EQ(store->try_queue_pop(key("q")), std::nullopt);
    EXPECT_THROW(store->queue_pop(key("q"), 1ms), StoreError);
}

TEST_P(Client, APrefixIsAViewOfTheSameStore) {
    const auto store = connect();
    const auto inner = std::make_shared<PrefixStore>(key("inner"), store);
    PrefixStore outer("outer", inner);
    outer.set("k", "v");
    EXPECT_EQ(store->get(key("inner") + "/outer/k"), "v");
    outer.set("l", "w");
    inner->set("outermost", "no part of it");
    EXPECT_THAT(outer.list_keys(), UnorderedElementsAre("k", "l"));
    std::jthread other([&] { PrefixStore(key("inner"), connect()).barrier("b", 2); });
    inner->barrier("b", 2);
}

TEST_P(Client, CountsWorkersAsTorchDoes) {
    const auto store = connect();
    const auto before = store->announce_worker();
    EXPECT_EQ(connect()->announce_worker(), before + 1);
    store->wait_for_workers(before + 1, 20s);
    EXPECT_THROW(store->wait_for_workers(before + 2, 30ms), StoreError);
}

TEST_P(Client, RefusesWhatIsOverALimitBeforeItIsSent) {
    const auto store = connect();
    for (const auto& call :
         std::vector<std::function<void()>>{[&] { store->set(std::string(8192, 'k'), "v"); },
                                            [&] { store->set("k", std::string((std::size_t{8} << 20U) + 1, 'v')); },
                                            [&] { store->check(std::vector<std::string>(131073, "k")); },
                                            [&] {
                                                store->multi_set({"a", "b"}, {"1"});
                                            }}) {
        try {
            call();
            ADD_FAILURE() << "was sent";
        } catch (const StoreError& error) {
            EXPECT_EQ(error.kind(), StoreError::Kind::invalid);
        }
    }
    EXPECT_EQ(store->add(key("n"), 1), 1) << "the connection is none the worse";
}

TEST_P(Client, ACloneIsAConnectionOfItsOwn) {
    const auto store = connect();
    const auto clone = store->clone();
    std::jthread setter([&] { clone->set(key("k"), "v"); });
    EXPECT_EQ(store->get(key("k")), "v");
}

INSTANTIATE_TEST_SUITE_P(Of, Client, testing::Values("ours", "libuv", "classic"),
                         [](const auto& kind) { return std::string(kind.param); });

TcpStoreOptions options_for(std::uint16_t port, std::chrono::milliseconds timeout = 20s) {
    TcpStoreOptions options;
    options.port = port;
    options.connect_timeout = options.reply_timeout = options.timeout = timeout;
    return options;
}

TEST(ClientFaults, ADeadServerEndsAWaitingGetAtOnce) {
    for (const char* backend : {"libuv", "classic"}) {
        const auto torch = start_torch_server(backend, CPPRUN_TORCH_PYTHON);
        if (!torch) GTEST_SKIP() << "torch is not installed";
        TcpStore store(options_for(torch->port()));
        std::jthread killer([&] {
            poll(nullptr, 0, 50);
            torch->kill_now();
        });
        try {
            store.get("never", store_forever);
            ADD_FAILURE() << "came";
        } catch (const StoreError& error) {
            EXPECT_EQ(error.kind(), StoreError::Kind::connection);
        }
        EXPECT_THROW(store.add("n", 1), StoreError) << "and it stays lost";
    }
}

TEST(ClientFaults, ConnectsOnceTheServerIsThere) {
    const auto reserved = reserve_port();
    std::atomic<int> retries{0};
    std::unique_ptr<StoreServer> late;
    std::jthread starter([&] {
        poll(nullptr, 0, 300);
        late = std::make_unique<StoreServer>(StoreServerOptions{.port = reserved.value().port});
    });
    TcpStoreOptions options = options_for(reserved.value().port);
    options.on_retry = [&](const std::string&) { ++retries; };
    TcpStore store(options);
    starter.join();
    EXPECT_EQ(store.add("n", 1), 1);
    EXPECT_GT(retries, 0);
}

TEST(ClientFaults, GivesUpAtTheDeadlineAndSaysWhy) {
    const auto reserved = reserve_port();
    try {
        TcpStore store(options_for(reserved.value().port, 300ms));
        ADD_FAILURE() << "connected";
    } catch (const StoreError& error) {
        EXPECT_EQ(error.kind(), StoreError::Kind::timeout);
        EXPECT_THAT(error.what(), HasSubstr("no store at 127.0.0.1:" + std::to_string(reserved.value().port)));
        EXPECT_THAT(error.what(), HasSubstr("refused"));
    }
}

// Accepts connections and treats each with `behave`.
class Impostor {
  public:
    explicit Impostor(std::function<void(int fd)> behave) : bound_(bind_sockets(ListenScope::loopback, 0).value()) {
        EXPECT_TRUE(start_listening(bound_.sockets.front()));
        thread_ = std::jthread([this, behave = std::move(behave)](const std::stop_token& stop) {
            std::vector<SocketFd> held;
            while (!stop.stop_requested()) {
                pollfd entry{bound_.sockets.front().get(), POLLIN, 0};
                if (poll(&entry, 1, 10) != 1) continue;
                held.emplace_back(accept(entry.fd, nullptr, nullptr));
                behave(held.back().get());
            }
        });
    }
    std::uint16_t port() const { return bound_.port; }

  private:
    BoundSockets bound_;
    std::jthread thread_;
};

TEST(ClientFaults, ASilentPeerIsNoStore) {
    const Impostor silent([](int) {});
    EXPECT_THROW(TcpStore(options_for(silent.port(), 200ms)), StoreError);
}

TEST(ClientFaults, APeerThatEchoesNonsenseIsNoStore) {
    const Impostor web([](int fd) { ::send(fd, "HTTP/1.1 400 Bad Request\r\n", 26, MSG_NOSIGNAL); });
    try {
        TcpStore store(options_for(web.port(), 200ms));
        ADD_FAILURE() << "connected";
    } catch (const StoreError& error) {
        EXPECT_THAT(error.what(), HasSubstr("what listens there is no store"));
    }
}

void echo_greeting(int fd) {
    std::string greeting(10, '\0');
    recv(fd, greeting.data(), greeting.size(), MSG_WAITALL);
    ::send(fd, greeting.data() + 6, 4, MSG_NOSIGNAL);
}

TEST(ClientFaults, AReplyThatNeverComesIsATimeOutAndTheEndOfTheClient) {
    const Impostor forgetful(echo_greeting);
    TcpStore store(options_for(forgetful.port(), 200ms));
    EXPECT_THROW(store.add("n", 1), StoreError);
    try {
        store.set("k", "v");
        ADD_FAILURE() << "sent";
    } catch (const StoreError& error) {
        EXPECT_EQ(error.kind(), StoreError::Kind::connection);
    }
}

TEST(ClientFaults, ACancelThatIsNeverConfirmedIsATimeOutToo) {
    const Impostor forgetful(echo_greeting);
    TcpStore store(options_for(forgetful.port(), 200ms));
    EXPECT_THROW(store.wait({"k"}, 10ms), StoreError);
}

TEST(ClientFaults, AnAbsurdLengthFromAServerIsRefused) {
    const Impostor mad([](int fd) {
        echo_greeting(fd);
        ::send(fd, "\0\xff\xff\xff\xff\xff\xff\xff\x7f", 9, MSG_NOSIGNAL);
    });
    TcpStore store(options_for(mad.port()));
    try {
        store.get("k");
        ADD_FAILURE() << "came";
    } catch (const StoreError& error) {
        EXPECT_EQ(error.kind(), StoreError::Kind::protocol);
    }
}

TEST(PublicStore, FromEnvironmentNeedsBothVariables) {
    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");
    EXPECT_THROW(TcpStore::from_environment(), StoreError);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "70000", 1);
    EXPECT_THROW(TcpStore::from_environment(), StoreError);
    StoreServer server;
    setenv("MASTER_PORT", std::to_string(server.port()).c_str(), 1);
    EXPECT_EQ(TcpStore::from_environment()->add("n", 1), 1);
}

TEST(PublicStore, AServerSaysWhyItCannotListen) {
    StoreServer first;
    try {
        StoreServer second({.port = first.port()});
        ADD_FAILURE() << "listens";
    } catch (const StoreError& error) {
        EXPECT_EQ(error.kind(), StoreError::Kind::connection);
        EXPECT_THAT(error.what(), HasSubstr("address already in use"));
    }
    StoreServerOptions named;
    named.bind_addresses = {"localhost"};
    EXPECT_THROW(StoreServer{named}, StoreError);
}

}  // namespace
}  // namespace cpprun::test
