// SPDX-License-Identifier: BSD-3-Clause
// The host's end of what its led agents write: collects their wishes, so that many become one change of the shared
// state, notices who is gone, and sends the answers.
#pragma once

#include "core/rendezvous/agent_mail.hpp"
#include "runtime/store/store_host.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cpprun {

struct HostDeskSettings {
    std::string live_prefix;  ///< of the keys that led agents write, without the wire's '/'
    std::string mail_prefix;  ///< of the keys that they read: <mail_prefix><node>/news/<n>
    std::string state_key;
    std::chrono::milliseconds closed_grace{1'000};   ///< after a closed connection, for the agent to come back
    std::chrono::milliseconds silent_after{10'000};  ///< without a sign of life
};

/// All but observe() on the thread that runs the executor.
class HostDesk {
  public:
    using Feed = std::function<void(std::vector<MembershipEvent>)>;

    HostDesk(boost::asio::any_io_executor executor, HostDeskSettings settings, Feed feed);

    /// For StoreHost's observer: called on the store's thread.
    void observe(const StoreEvent& event);
    /// Nothing happens before, and after stop().
    void start(StoreHost& store);
    void stop();

    bool leads(const NodeId& node) const { return members_.contains(node); }
    std::vector<NodeId> led() const;

    /// Puts a message into the node's box; flush() delivers all at once.
    void post(const NodeId& node, const HostMail& mail);
    void flush();

  private:
    using Clock = std::chrono::steady_clock;
    struct Member {
        std::int64_t next_mail = 0;
        std::int64_t oldest_mail = 0;  ///< that is in the store
        std::int64_t connections = 0;
        Clock::time_point heard;
        bool known = false;  ///< it has wished to join and has not left
        bool says_what_it_reads = false;
        bool fresh = true;  ///< its next message says where its mail goes on
    };

    void written(std::uint64_t connection, const std::string& key, const std::string& value);
    void closed(std::uint64_t connection);
    void collect(MembershipEvent event);
    void hand_over();
    void gone(const NodeId& node, const std::string& how);
    void take_away(const NodeId& node, Member& member, std::int64_t before);
    void look_for_silent();
    std::string mail_key(const NodeId& node, std::int64_t number) const;

    boost::asio::any_io_executor executor_;
    HostDeskSettings settings_;
    Feed feed_;
    StoreHost* store_ = nullptr;
    std::map<NodeId, Member> members_;
    std::map<std::uint64_t, NodeId> connections_;
    std::vector<MembershipEvent> collected_;
    StorePairs outbox_;
    std::vector<std::string> outdated_;
    boost::asio::steady_timer fold_timer_;
    boost::asio::steady_timer silence_timer_;
    bool folding_ = false;
    Clock::time_point folded_;
    std::int64_t serial_ = 0;
};

}  // namespace cpprun
