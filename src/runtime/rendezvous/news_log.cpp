// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rendezvous/news_log.hpp"

#include <algorithm>
#include <charconv>

namespace cpprun {
namespace {

// Older entries are taken away; who comes later starts at the newest.
constexpr std::int64_t entries_kept = 512;

}  // namespace

std::string NewsLog::key(std::int64_t number) const {
    return prefix_ + "news/" + std::to_string(number);
}

boost::asio::awaitable<StoreResult<void>> NewsLog::begin(std::shared_ptr<StoreLink> link) {
    const std::string head = prefix_ + "news/head";
    // An addition of nothing reads the counter, and makes it where it is missing.
    const auto newest = co_await link->add(head, 0);
    if (!newest) co_return newest.error();
    std::int64_t number = newest.value();
    for (;; ++number) {
        const auto there = co_await link->check(key(number));
        if (!there) co_return there.error();
        if (!there.value()) break;
    }
    next_write_ = next_read_ = number;
    co_return boost::outcome_v2::success();
}

boost::asio::awaitable<StoreResult<void>> NewsLog::publish(std::shared_ptr<StoreLink> link, std::string text) {
    // A number of this call's own: another call may be under way, and a number that nobody writes would hold all up.
    std::int64_t number = std::max(next_write_, next_read_);
    for (;; ++number) {
        const auto stored = co_await link->compare_set(key(number), "", text);
        if (!stored) co_return stored.error();
        if (stored.value() == text) break;
    }
    next_write_ = std::max(next_write_, number + 1);
    // PyTorch's older server does not wake those who wait for a key that a compare-and-set makes.
    const auto woken = co_await link->set(key(number), text);
    if (!woken) co_return woken.error();
    const auto counted = co_await link->add(prefix_ + "news/head", 1);
    if (!counted) co_return counted.error();
    if (number >= entries_kept) {
        const auto removed = co_await link->remove(key(number - entries_kept));
        if (!removed) co_return removed.error();
    }
    co_return boost::outcome_v2::success();
}

boost::asio::awaitable<StoreFailure> NewsLog::follow(std::shared_ptr<StoreLink> link,
                                                     std::function<void(const std::string&)> hear,
                                                     std::chrono::milliseconds patience) {
    for (;;) {
        const auto waited = co_await link->wait(key(next_read_), patience);
        if (!waited && waited.error().kind == StoreFailure::Kind::timeout) {
            const auto passed = co_await pass_over_what_is_gone(link);
            if (!passed) co_return passed.error();
            continue;
        }
        if (!waited) co_return waited.error();
        const auto text = co_await link->get(key(next_read_));
        if (!text) co_return text.error();
        ++next_read_;
        hear(text.value());
    }
}

boost::asio::awaitable<StoreResult<void>> NewsLog::pass_over_what_is_gone(std::shared_ptr<StoreLink> link) {
    const std::string head = prefix_ + "news/head";
    const auto counted = co_await link->check(head);
    if (!counted) co_return counted.error();
    if (!counted.value()) co_return boost::outcome_v2::success();
    const auto newest = co_await link->add(head, 0);
    if (!newest) co_return newest.error();
    // Written by other nodes: at most so many are looked for, whatever the counter says.
    std::int64_t number = std::max(next_read_, newest.value() - entries_kept);
    for (; number < newest.value(); ++number) {
        const auto there = co_await link->check(key(number));
        if (!there) co_return there.error();
        if (there.value()) break;
    }
    next_read_ = number;
    co_return boost::outcome_v2::success();
}

}  // namespace cpprun
