// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/timer/file_timer_server.hpp"

#include "core/error.hpp"
#include "runtime/os/unique_fd.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/uuid/random_generator.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cpprun {
namespace asio = boost::asio;
namespace {

/// Expirations are in wall-clock time, which may be set; so it is looked at this often while timers run.
constexpr std::chrono::duration<double> longest_wait{1.0};

double seconds_since_epoch() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Error cannot(const char* what, const std::string& path, const std::string& why) {
    return failure(fmt::format("{} the timer FIFO {}: {}", what, path, why));
}

/// Removes a FIFO of ours at `path`. Nothing else is ever removed there: the path is a caller's word.
Result<void> remove_old(const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return boost::outcome_v2::success();
    if (!S_ISFIFO(status.st_mode)) return cannot("cannot create", path, "something that is no FIFO is there");
    if (status.st_uid != ::geteuid()) return cannot("cannot create", path, "another user's FIFO is there");
    if (::unlink(path.c_str()) != 0) return cannot("cannot replace", path, error_text(errno));
    return boost::outcome_v2::success();
}

/// Both ends in one descriptor: so reading never meets an end of file when a client closes, and a client's opening for
/// writing never finds that nobody reads.
Result<UniqueFd> make_fifo(const std::string& path) {
    BOOST_OUTCOME_TRY(remove_old(path));
    if (::mkfifo(path.c_str(), 0600) != 0) return cannot("cannot create", path, error_text(errno));
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0) {
        const std::string why = error_text(errno);
        ::unlink(path.c_str());
        return cannot("cannot open", path, why);
    }
    if (!S_ISFIFO(status.st_mode)) return cannot("cannot open", path, "it was replaced meanwhile");
    return fd;
}

}  // namespace

class FileTimerServer::Session : public std::enable_shared_from_this<FileTimerServer::Session> {
  public:
    Session(asio::io_context& context, std::string path, UniqueFd fd, FileTimerCallbacks callbacks)
        : path_(std::move(path)), callbacks_(std::move(callbacks)), fifo_(context), wait_(context) {
        ::fstat(fd.get(), &identity_);
        fifo_.assign(fd.release());
    }

    void read() {
        fifo_.async_read_some(asio::buffer(buffer_),
                              [self = shared_from_this()](boost::system::error_code error, std::size_t size) {
                                  self->on_read(error, size);
                              });
    }

    void forget(int pid) { table_.forget(pid); }

    void stop() {
        if (stopped_) return;
        stopped_ = true;
        boost::system::error_code ignored;
        fifo_.close(ignored);
        wait_.cancel();
        remove_ours();
    }

  private:
    void on_read(boost::system::error_code error, std::size_t size) {
        if (stopped_) return;
        if (error) {
            callbacks_.on_remark(fmt::format("no more timers: reading {}: {}", path_, error.message()));
            return;
        }
        for (const std::string& remark : table_.feed(std::string_view(buffer_.data(), size)))
            callbacks_.on_remark(remark);
        report_expired();
        if (!stopped_) read();
    }

    void report_expired() {
        for (const ExpiredTimer& timer : table_.expired(seconds_since_epoch())) {
            callbacks_.on_expired(timer);
            if (stopped_) return;
        }
        wait_for_next();
    }

    void wait_for_next() {
        const auto next = table_.next_expiration();
        if (!next) {
            wait_.cancel();
            return;
        }
        const std::chrono::duration<double> left(std::max(0.0, *next - seconds_since_epoch()));
        wait_.expires_after(std::chrono::ceil<std::chrono::milliseconds>(std::min(left, longest_wait)));
        wait_.async_wait([self = shared_from_this()](boost::system::error_code error) {
            if (!error && !self->stopped_) self->report_expired();
        });
    }

    void remove_ours() {
        struct stat status {};
        const bool same = ::lstat(path_.c_str(), &status) == 0 && status.st_dev == identity_.st_dev &&
                          status.st_ino == identity_.st_ino;
        if (same) ::unlink(path_.c_str());
    }

    std::string path_;
    FileTimerCallbacks callbacks_;
    asio::posix::stream_descriptor fifo_;
    asio::steady_timer wait_;
    struct stat identity_ {};
    FileTimerTable table_;
    std::array<char, 4096> buffer_{};
    bool stopped_ = false;
};

Result<FileTimerServer> FileTimerServer::start(asio::io_context& context, std::string path,
                                               FileTimerCallbacks callbacks) {
    BOOST_OUTCOME_TRY(UniqueFd fd, make_fifo(path));
    auto session = std::make_shared<Session>(context, std::move(path), std::move(fd), std::move(callbacks));
    session->read();
    return FileTimerServer(std::move(session));
}

FileTimerServer::FileTimerServer(std::shared_ptr<Session> session) : session_(std::move(session)) {}
FileTimerServer::FileTimerServer(FileTimerServer&&) noexcept = default;

FileTimerServer& FileTimerServer::operator=(FileTimerServer&& other) noexcept {
    stop();
    session_ = std::move(other.session_);
    return *this;
}

FileTimerServer::~FileTimerServer() {
    stop();
}

void FileTimerServer::forget(int pid) {
    if (session_) session_->forget(pid);
}

void FileTimerServer::stop() {
    if (session_) session_->stop();
}

std::string fresh_timer_path(const std::string& directory) {
    return directory + "/watchdog_timer_" + boost::uuids::to_string(boost::uuids::random_generator()());
}

}  // namespace cpprun
