// SPDX-License-Identifier: BSD-3-Clause
// --health-port: the same answer to whatever asks over HTTP. What is asked is read, within bounds, and not looked at.
#pragma once

#include "core/error.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace cpprun {

class HealthServer {
  public:
    /// Listens on `address` (numeric) and answers on `io`'s thread until destroyed. Error: the port is taken, with who
    /// has it where known, or the address is none of this machine's.
    static Result<std::unique_ptr<HealthServer>> start(boost::asio::io_context& io, const std::string& address,
                                                       std::uint16_t port, std::function<std::string()> answer);

  private:
    HealthServer(boost::asio::io_context& io, std::function<std::string()> answer);
    void accept();

    boost::asio::ip::tcp::acceptor acceptor_;
    std::shared_ptr<std::function<std::string()>> answer_;  ///< connections see by it whether the server still is
    std::shared_ptr<int> open_ = std::make_shared<int>(0);  ///< connections that are being served
};

}  // namespace cpprun
