// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rendezvous/name_lookup.hpp"

#include "core/error.hpp"
#include "runtime/rendezvous/as_result.hpp"
#include "runtime/store/name_question.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstring>
#include <netdb.h>
#include <unistd.h>

namespace cpprun {
namespace {

using boost::asio::ip::tcp;
using Endpoints = std::vector<tcp::endpoint>;

tcp::endpoint endpoint_of(const SocketAddress& address, std::uint16_t port) {
    tcp::endpoint endpoint;
    std::memcpy(endpoint.data(), address.data(), address.length);
    endpoint.resize(address.length);
    endpoint.port(port);
    return endpoint;
}

}  // namespace

boost::asio::awaitable<Result<Endpoints>> look_up(boost::asio::any_io_executor executor, std::string host,
                                                  std::uint16_t port, std::chrono::steady_clock::time_point deadline) {
    using namespace boost::asio::experimental::awaitable_operators;
    if (const auto numeric = parse_address(host, port)) co_return Endpoints{endpoint_of(numeric.value(), port)};
    const auto question = NameQuestion::ask(host);
    if (!question->answered()) {
        // One of its own for the executor, which closes it.
        const int own_end = ::dup(question->descriptor());
        if (own_end < 0) co_return failure("the name '" + host + "' cannot be asked for: " + error_text(errno));
        boost::asio::posix::stream_descriptor answered(executor, own_end);
        boost::asio::steady_timer timer(executor, deadline);
        co_await (answered.async_wait(boost::asio::posix::stream_descriptor::wait_read, as_result) ||
                  timer.async_wait(as_result));
    }
    if (!question->answered()) co_return failure("the resolver has not answered for the name '" + host + "'");
    if (question->error() != 0)
        co_return failure("the name '" + host + "' does not resolve: " + ::gai_strerror(question->error()));
    Endpoints endpoints;
    for (const SocketAddress& address : question->addresses()) endpoints.push_back(endpoint_of(address, port));
    co_return endpoints;
}

}  // namespace cpprun
