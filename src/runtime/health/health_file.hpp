// SPDX-License-Identifier: BSD-3-Clause
// --health-file: a file whose age says whether the agent lives.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <string>

namespace cpprun {

class HealthFile {
  public:
    /// Replaces `path` by what `content` returns, now and each second on `io`'s thread, until destroyed; the file
    /// stays. A reader sees the old or the new content, never a part. That it cannot be written is said once.
    HealthFile(boost::asio::io_context& io, std::string path, std::function<std::string()> content);

  private:
    void write();

    std::string path_;
    std::function<std::string()> content_;
    boost::asio::steady_timer timer_;
    bool complained_ = false;
};

}  // namespace cpprun
