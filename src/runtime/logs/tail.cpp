// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/logs/tail.hpp"

#include "core/error.hpp"
#include "runtime/logs/copier.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <future>
#include <map>
#include <pthread.h>

namespace cpprun {

namespace asio = boost::asio;

/// What the executor's thread knows of the drains that it waits for. The copier's thread only posts handlers that look
/// at it, so that a copier left behind can do no harm.
struct Tail::Waiting {
    struct One {
        std::function<void()> done;
        asio::executor_work_guard<asio::io_context::executor_type> work;
    };
    std::map<int, One> drains;
    int last_id = 0;

    void finish(int id) {
        auto node = drains.extract(id);
        if (!node.empty()) node.mapped().done();
    }
};

Tail::Tail(asio::io_context::executor_type executor, TailOptions options)
    : executor_(std::move(executor)), options_(std::move(options)), waiting_(std::make_shared<Waiting>()) {}

Tail::~Tail() {
    stop();
}

void Tail::start_thread() {
    const auto problem = [executor = executor_, tell = options_.on_error](const std::string& text) {
        if (tell) asio::post(executor, [tell, text] { tell(text); });
    };
    const auto drained = [executor = executor_, waiting = std::weak_ptr<Waiting>(waiting_)](int id) {
        asio::post(executor, [waiting, id] {
            if (const auto alive = waiting.lock()) alive->finish(id);
        });
    };
    copier_ = std::make_shared<Copier>(options_, Copier::Reports{.problem = problem, .drained = drained});
    // The agent's signals are none of this thread's, and a closed console is found by EPIPE instead of SIGPIPE.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([copier = copier_] { copier->run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Result<void> Tail::add_stream(TailStream stream) {
    std::shared_ptr<const UniqueFd> file = stream.captured;
    if (!file) {
        file = std::make_shared<const UniqueFd>(::open(stream.path.c_str(), O_RDONLY | O_CLOEXEC));
        if (!*file) return failure("cannot read the log " + stream.path + ": " + error_text(errno));
    }
    if (!thread_.joinable()) start_thread();
    copier_->send(Copier::Follow{.stream = std::move(stream), .file = std::move(file)});
    return boost::outcome_v2::success();
}

void Tail::catch_up(int local_rank, std::chrono::milliseconds bound) {
    if (!thread_.joinable()) return;
    const auto done = std::make_shared<std::promise<void>>();
    std::future<void> seen = done->get_future();
    copier_->send(Copier::CatchUp{.local_rank = local_rank, .done = done});
    seen.wait_for(bound);
}

void Tail::end_line(std::chrono::milliseconds bound) {
    if (!thread_.joinable() || !copier_->line_is_open()) return;
    const auto done = std::make_shared<std::promise<void>>();
    std::future<void> written = done->get_future();
    copier_->send(Copier::EndLine{done});
    written.wait_for(bound);
}

void Tail::resize(const TerminalSize& size, std::chrono::milliseconds bound) {
    if (!thread_.joinable()) return;
    const auto done = std::make_shared<std::promise<void>>();
    std::future<void> set = done->get_future();
    copier_->send(Copier::Resize{.size = size, .done = done});
    set.wait_for(bound);
}

void Tail::drain(std::function<void()> done) {
    if (!thread_.joinable()) {
        asio::post(executor_, std::move(done));
        return;
    }
    const int id = ++waiting_->last_id;
    waiting_->drains.emplace(id, Waiting::One{.done = std::move(done), .work = asio::make_work_guard(executor_)});
    copier_->send(Copier::Drain{.id = id});
}

void Tail::stop(std::chrono::milliseconds bound) {
    waiting_->drains.clear();
    if (!thread_.joinable()) return;
    copier_->quit();
    if (copier_->ended_within(bound)) {
        thread_.join();
    } else {
        thread_.detach();
    }
    copier_.reset();
}

}  // namespace cpprun
