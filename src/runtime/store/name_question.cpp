// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/store/name_question.hpp"

#include <csignal>
#include <cstdint>
#include <cstring>
#include <netdb.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace cpprun {

NameQuestion::NameQuestion(std::string host)
    : host_(std::move(host)), readable_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

std::shared_ptr<NameQuestion> NameQuestion::ask(std::string host) {
    // The answering thread may be the last to hold it.
    std::shared_ptr<NameQuestion> question(new NameQuestion(std::move(host)));
    if (!question->readable_.valid()) {
        question->look_up();
        return question;
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread([question] { question->look_up(); }).detach();
    } catch (const std::system_error&) {
        question->look_up();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return question;
}

void NameQuestion::look_up() {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* found = nullptr;
    error_ = getaddrinfo(host_.c_str(), nullptr, &hints, &found);
    if (error_ != 0) found = nullptr;
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
        SocketAddress& address = addresses_.emplace_back();
        std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
        address.length = entry->ai_addrlen;
    }
    answered_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(readable_.get(), &one, sizeof one);
}

}  // namespace cpprun
