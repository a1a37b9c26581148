// SPDX-License-Identifier: BSD-3-Clause
// Runs coroutines of a test to their end.
#pragma once

#include "core/error.hpp"
#include "runtime/rendezvous/store_link.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

namespace cpprun::test {

class Loop {
  public:
    /// The result of `flow`, which must end within a minute.
    template <class T>
    T run(boost::asio::awaitable<T> flow) {
        std::optional<T> result;
        start([&]() -> boost::asio::awaitable<void> { result.emplace(co_await std::move(flow)); });
        if (!until([&] { return result.has_value(); })) throw std::runtime_error("a coroutine has not ended");
        return std::move(*result);
    }

    template <class Flow>
    void start(Flow flow) {
        boost::asio::co_spawn(io, std::move(flow), [](std::exception_ptr error) {
            if (error) std::rethrow_exception(error);
        });
    }

    bool until(const std::function<bool()>& fact, std::chrono::milliseconds within = std::chrono::minutes(1)) {
        const auto deadline = std::chrono::steady_clock::now() + within;
        while (!fact() && std::chrono::steady_clock::now() < deadline) {
            io.restart();
            io.run_one_for(std::chrono::milliseconds(10));
        }
        return fact();
    }

    void pass(std::chrono::milliseconds time) {
        until([] { return false; }, time);
    }

    std::shared_ptr<StoreLink> link(std::uint16_t port, std::chrono::milliseconds reply = std::chrono::seconds(20),
                                    std::chrono::milliseconds connect = std::chrono::seconds(20)) {
        StoreLinkSettings settings;
        settings.host = "127.0.0.1";
        settings.port = port;
        settings.reply_timeout = reply;
        settings.connect_timeout = connect;
        return std::make_shared<StoreLink>(io.get_executor(), settings);
    }
    std::shared_ptr<StoreLink> connected(std::uint16_t port,
                                         std::chrono::milliseconds reply = std::chrono::seconds(20)) {
        auto made = link(port, reply);
        const auto done = run(made->connect());
        if (!done) throw std::runtime_error(done.error().message);
        return made;
    }

    boost::asio::io_context io;
};

inline std::chrono::milliseconds since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
}

}  // namespace cpprun::test
