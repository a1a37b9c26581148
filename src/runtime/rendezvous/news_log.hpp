// SPDX-License-Identifier: BSD-3-Clause
// What cpprun's agents of one run tell each other, in order: short texts under numbered keys, so that a single wait
// hears of all. Whoever writes takes the next free number by compare-and-set, which leaves no gaps.
#pragma once

#include "runtime/rendezvous/store_link.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace cpprun {

class NewsLog {
  public:
    /// `prefix` of all keys, ends with '/'.
    explicit NewsLog(std::string prefix) : prefix_(std::move(prefix)) {}

    /// Starts behind what has been written so far. Before publish() and follow().
    boost::asio::awaitable<StoreResult<void>> begin(std::shared_ptr<StoreLink> link);

    /// Adds one entry. Every text must be unlike all others: put the node and a serial number in.
    boost::asio::awaitable<StoreResult<void>> publish(std::shared_ptr<StoreLink> link, std::string text);

    /// Hands every new entry to `hear` until the link breaks, and returns why it did. `link` is used for nothing else.
    /// Entries that were taken away before they were read, as older ones are, are passed over: where nothing comes for
    /// `patience`, the counter of entries is looked at.
    boost::asio::awaitable<StoreFailure> follow(std::shared_ptr<StoreLink> link,
                                                std::function<void(const std::string&)> hear,
                                                std::chrono::milliseconds patience = std::chrono::seconds(30));
    /// The number of the entry that follow() reads next.
    std::int64_t position() const { return next_read_; }

  private:
    std::string key(std::int64_t number) const;
    boost::asio::awaitable<StoreResult<void>> pass_over_what_is_gone(std::shared_ptr<StoreLink> link);

    std::string prefix_;
    std::int64_t next_write_ = 0;
    std::int64_t next_read_ = 0;
};

}  // namespace cpprun
