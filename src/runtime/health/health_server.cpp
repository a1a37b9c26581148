// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/health/health_server.hpp"

#include "runtime/store/address.hpp"
#include "runtime/store/listener.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <chrono>
#include <fcntl.h>

namespace cpprun {
namespace {

using boost::asio::ip::tcp;

constexpr std::size_t request_bytes_max = 8192;
constexpr int connections_max = 32;
constexpr std::chrono::seconds time_max{5};

/// One question and its answer. Lives as long as one of its operations does.
class Connection : public std::enable_shared_from_this<Connection> {
  public:
    Connection(tcp::socket socket, std::weak_ptr<std::function<std::string()>> answer, std::shared_ptr<int> open)
        : socket_(std::move(socket)),
          timer_(socket_.get_executor()),
          answer_(std::move(answer)),
          open_(std::move(open)) {
        ++*open_;
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { --*open_; }

    void serve() {
        timer_.expires_after(time_max);
        timer_.async_wait([self = weak_from_this()](boost::system::error_code error) {
            const auto connection = self.lock();
            if (!error && connection) connection->close();
        });
        boost::asio::async_read_until(
            socket_, boost::asio::dynamic_buffer(request_, request_bytes_max), "\r\n\r\n",
            [self = shared_from_this()](boost::system::error_code error, std::size_t) { self->answer(error); });
    }

  private:
    void answer(boost::system::error_code error) {
        const auto make = answer_.lock();
        if (error || !make) return;
        text_ = (*make)();
        boost::asio::async_write(
            socket_, boost::asio::buffer(text_),
            [self = shared_from_this()](boost::system::error_code, std::size_t) { self->close(); });
    }

    void close() {
        boost::system::error_code ignored;
        socket_.shutdown(tcp::socket::shutdown_both, ignored);
        socket_.close(ignored);
        timer_.cancel();
    }

    tcp::socket socket_;
    boost::asio::steady_timer timer_;
    std::weak_ptr<std::function<std::string()>> answer_;
    std::shared_ptr<int> open_;
    std::string request_;
    std::string text_;
};

}  // namespace

Result<std::unique_ptr<HealthServer>> HealthServer::start(boost::asio::io_context& io, const std::string& address,
                                                          std::uint16_t port, std::function<std::string()> answer) {
    BOOST_OUTCOME_TRY(const SocketAddress where, parse_address(address, port));
    BOOST_OUTCOME_TRY(BoundSockets bound, bind_sockets(ListenScope::loopback, port, {address}));
    if (bound.sockets.empty()) return failure("this machine has no address " + address);
    BOOST_OUTCOME_TRY(start_listening(bound.sockets.front()));
    std::unique_ptr<HealthServer> server(new HealthServer(io, std::move(answer)));
    server->acceptor_.assign(where.family() == AF_INET6 ? tcp::v6() : tcp::v4(), bound.sockets.front().release());
    server->accept();
    return server;
}

HealthServer::HealthServer(boost::asio::io_context& io, std::function<std::string()> answer)
    : acceptor_(io), answer_(std::make_shared<std::function<std::string()>>(std::move(answer))) {}

void HealthServer::accept() {
    acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
        if (error == boost::asio::error::operation_aborted) return;
        if (!error) {
            ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
            // One too many is closed: who floods the port gets no more than this.
            if (*open_ < connections_max) std::make_shared<Connection>(std::move(socket), answer_, open_)->serve();
        }
        accept();
    });
}

}  // namespace cpprun
