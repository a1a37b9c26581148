// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rendezvous/name_lookup.hpp"

#include "runtime/os/unique_fd.hpp"
#include "runtime/store/address.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace cpprun {
namespace {

using boost::asio::ip::tcp;
using Endpoints = std::vector<tcp::endpoint>;

constexpr auto as_result = boost::asio::as_tuple(boost::asio::use_awaitable);

tcp::endpoint endpoint_of(const sockaddr* address, socklen_t length, std::uint16_t port) {
    tcp::endpoint endpoint;
    std::memcpy(endpoint.data(), address, length);
    endpoint.resize(length);
    endpoint.port(port);
    return endpoint;
}

/// What the asking and the asked thread share; whoever is last throws it away.
struct Question {
    UniqueFd answered{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::string host;
    std::uint16_t port = 0;
    int error = 0;
    Endpoints endpoints;
    std::atomic<bool> complete{false};  ///< the two above are there to be read
};

void ask(const std::shared_ptr<Question>& question) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* found = nullptr;
    question->error = ::getaddrinfo(question->host.c_str(), nullptr, &hints, &found);
    if (question->error == 0) {
        for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next)
            question->endpoints.push_back(endpoint_of(entry->ai_addr, entry->ai_addrlen, question->port));
        ::freeaddrinfo(found);
    }
    question->complete.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(question->answered.get(), &one, sizeof one);
}

}  // namespace

boost::asio::awaitable<Result<Endpoints>> look_up(boost::asio::any_io_executor executor, std::string host,
                                                  std::uint16_t port, std::chrono::steady_clock::time_point deadline) {
    using namespace boost::asio::experimental::awaitable_operators;
    if (const auto numeric = parse_address(host, port))
        co_return Endpoints{endpoint_of(numeric.value().data(), numeric.value().length, port)};
    const auto question = std::make_shared<Question>();
    question->host = host;
    question->port = port;
    const int own_end = question->answered ? ::dup(question->answered.get()) : -1;
    if (own_end < 0) co_return failure("the name '" + host + "' cannot be asked for: " + std::strerror(errno));
    boost::asio::posix::stream_descriptor answered(executor, own_end);
    std::thread([question] { ask(question); }).detach();
    boost::asio::steady_timer timer(executor, deadline);
    const auto first = co_await (answered.async_wait(boost::asio::posix::stream_descriptor::wait_read, as_result) ||
                                 timer.async_wait(as_result));
    if (first.index() == 1 || !question->complete.load(std::memory_order_acquire))
        co_return failure("the resolver has not answered for the name '" + host + "'");
    if (question->error != 0)
        co_return failure("the name '" + host + "' does not resolve: " + ::gai_strerror(question->error));
    co_return std::move(question->endpoints);
}

}  // namespace cpprun
