// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/agent/heartbeats.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <random>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace cpprun {
namespace {

// Whoever beats more often than this is heard as often.
constexpr std::chrono::milliseconds heard_every{10};
// Of what a flooded socket holds, so much is taken away at once; the kernel keeps no more than some hundreds.
constexpr int taken_at_once = 1024;
// Behind it come the folder's own name, the local rank, a number and the end of the text.
constexpr std::size_t name_bytes_max = sizeof(sockaddr_un::sun_path) - 36;

std::string base_of(const Environment& environment) {
    const auto folder = environment.find("TMPDIR");
    const bool usable = folder != environment.end() && !folder->second.empty() &&
                        folder->second.size() < name_bytes_max && ::access(folder->second.c_str(), W_OK | X_OK) == 0;
    return usable ? folder->second : "/tmp";
}

}  // namespace

struct Heartbeats::Listener {
    explicit Listener(boost::asio::io_context& io) : socket(io), timer(io) {}

    int local_rank = 0;
    std::string path;
    boost::asio::local::datagram_protocol::socket socket;
    boost::asio::steady_timer timer;
};

Heartbeats::Heartbeats(boost::asio::io_context& io, const Environment& environment, std::function<void(int)> beat)
    : io_(io), base_(base_of(environment)), beat_(std::move(beat)) {}

Heartbeats::~Heartbeats() {
    end_attempt();
}

Result<void> Heartbeats::begin_attempt(int workers) {
    end_attempt();
    std::string folder = base_ + "/cpprun-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr)
        return failure("cannot make a folder for heartbeats: " + folder + ": " + error_text(errno));
    folder_ = std::move(folder);
    std::random_device random;
    for (int rank = 0; rank < workers; ++rank) {
        auto listener = std::make_shared<Listener>(io_);
        listener->local_rank = rank;
        listener->path = fmt::format("{}/{}.{:08x}", folder_, rank, random());
        boost::system::error_code error;
        listener->socket.open(boost::asio::local::datagram_protocol(), error);
        if (!error) listener->socket.bind(listener->path, error);
        if (!error) listener->socket.non_blocking(true, error);
        if (error) return failure("cannot listen for heartbeats at " + listener->path + ": " + error.message());
        listeners_.push_back(listener);
        listen(listener);
    }
    return boost::outcome_v2::success();
}

void Heartbeats::end_attempt() {
    for (const auto& listener : listeners_) {
        boost::system::error_code ignored;
        listener->socket.close(ignored);
        listener->timer.cancel();
        ::unlink(listener->path.c_str());
    }
    listeners_.clear();
    if (!folder_.empty()) ::rmdir(folder_.c_str());
    folder_.clear();
}

std::string Heartbeats::path(int local_rank) const {
    const auto at = static_cast<std::size_t>(local_rank);
    return at < listeners_.size() ? listeners_[at]->path : std::string();
}

void Heartbeats::listen(const std::shared_ptr<Listener>& listener) {
    listener->socket.async_wait(boost::asio::socket_base::wait_read, [this, listener](boost::system::error_code error) {
        if (error || !listener->socket.is_open()) return;
        std::array<char, 1> byte{};
        bool heard = false;
        for (int taken = 0; taken < taken_at_once; ++taken) {
            const ssize_t got = ::recv(listener->socket.native_handle(), byte.data(), byte.size(), MSG_DONTWAIT);
            if (got < 0) break;
            heard = true;
        }
        if (heard) beat_(listener->local_rank);
        if (!listener->socket.is_open()) return;
        listener->timer.expires_after(heard_every);
        listener->timer.async_wait([this, listener](boost::system::error_code stopped) {
            if (!stopped && listener->socket.is_open()) listen(listener);
        });
    });
}

}  // namespace cpprun
