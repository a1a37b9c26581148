// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/health/health_file.hpp"

#include "runtime/diagnostics.hpp"
#include "runtime/os/bounded_file.hpp"

#include <chrono>

namespace cpprun {
namespace {

constexpr std::chrono::seconds every{1};

}  // namespace

HealthFile::HealthFile(boost::asio::io_context& io, std::string path, std::function<std::string()> content)
    : path_(std::move(path)), content_(std::move(content)), timer_(io) {
    write();
}

void HealthFile::write() {
    const Result<void> written = write_file(path_, content_());
    if (!written && !complained_) log(LogLevel::warning, "health file: " + written.error().message);
    complained_ = !written;
    timer_.expires_after(every);
    timer_.async_wait([this](boost::system::error_code error) {
        if (!error) write();
    });
}

}  // namespace cpprun
