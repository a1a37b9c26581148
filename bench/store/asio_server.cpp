// SPDX-License-Identifier: BSD-3-Clause
// The floor once more, on Boost.Asio: what its reactor costs on this path. Arguments as floor_server's, but two pairs
// only: the greeting's and the repeated one.
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <vector>

namespace {

using boost::asio::ip::tcp;

std::array<std::size_t, 2> request_bytes{};
std::array<std::size_t, 2> reply_bytes{};

class Session : public std::enable_shared_from_this<Session> {
  public:
    explicit Session(tcp::socket socket) : socket_(std::move(socket)), output_(reply_bytes[0] + 2 * reply_bytes[1]) {
        socket_.set_option(tcp::no_delay(true));
        socket_.non_blocking(true);
    }

    void read() {
        socket_.async_read_some(boost::asio::buffer(input_), [self = shared_from_this()](auto error, std::size_t got) {
            if (!error) self->serve(got);
        });
    }

  private:
    void serve(std::size_t got) {
        got_ += got;
        std::size_t reply = 0;
        while (got_ >= request_bytes[step_]) {
            got_ -= request_bytes[step_];
            if (step_ == 0) std::memcpy(output_.data(), input_.data() + 6, 4);
            reply += reply_bytes[step_];
            step_ = 1;
        }
        boost::system::error_code error;
        socket_.write_some(boost::asio::buffer(output_.data(), reply), error);
        if (!error) read();
    }

    tcp::socket socket_;
    std::array<char, 4096> input_{};
    std::vector<char> output_;
    std::size_t got_ = 0;
    std::size_t step_ = 0;
};

void accept(tcp::acceptor& acceptor) {
    acceptor.async_accept([&acceptor](auto error, tcp::socket socket) {
        if (!error) std::make_shared<Session>(std::move(socket))->read();
        accept(acceptor);
    });
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    for (std::size_t i = 0; i < 2; ++i) {
        request_bytes[i] = static_cast<std::size_t>(std::atoll(argv[i + 1]));
        reply_bytes[i] = static_cast<std::size_t>(std::atoll(std::strchr(argv[i + 1], ':') + 1));
    }
    boost::asio::io_context context(1);
    tcp::acceptor acceptor(context, tcp::endpoint(tcp::v4(), 0));
    acceptor.listen(65535);
    std::cout << acceptor.local_endpoint().port() << std::endl;
    boost::asio::posix::stream_descriptor parent(context, 0);
    char byte = 0;
    parent.async_read_some(boost::asio::buffer(&byte, 1), [&](auto, std::size_t) { context.stop(); });
    accept(acceptor);
    context.run();
    return 0;
}
