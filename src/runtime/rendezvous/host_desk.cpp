// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rendezvous/host_desk.hpp"

#include "core/text/terminal_safe.hpp"
#include "runtime/diagnostics.hpp"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace cpprun {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t members_max = 100'000;
constexpr std::size_t value_bytes_max = 4096;
// Of mail that a node has not confirmed with a sign of life. It gets a few in the time of one.
constexpr std::int64_t mails_kept = 64;
constexpr milliseconds fold_max{50};
constexpr std::size_t members_per_millisecond = 100;
constexpr milliseconds silence_looked_for_every{1'000};

}  // namespace

HostDesk::HostDesk(boost::asio::any_io_executor executor, HostDeskSettings settings, Feed feed)
    : executor_(executor),
      settings_(std::move(settings)),
      feed_(std::move(feed)),
      fold_timer_(executor),
      silence_timer_(executor) {}

void HostDesk::observe(const StoreEvent& event) {
    const std::uint64_t client = event.client;
    if (event.kind == StoreEvent::Kind::connection_closed) {
        boost::asio::post(executor_, [this, client] { closed(client); });
    } else if (event.key.substr(1) == settings_.state_key) {
        boost::asio::post(executor_, [this] { collect(StateChanged{}); });
    } else if (event.key.size() < value_bytes_max) {
        boost::asio::post(
            executor_, [this, client, key = std::string(event.key.substr(1)),
                        value = std::string(event.value.substr(0, value_bytes_max))] { written(client, key, value); });
    }
}

void HostDesk::start(StoreHost& store) {
    store_ = &store;
    look_for_silent();
}

void HostDesk::stop() {
    store_ = nullptr;
    fold_timer_.cancel();
    silence_timer_.cancel();
}

std::vector<NodeId> HostDesk::led() const {
    std::vector<NodeId> nodes;
    for (const auto& [node, member] : members_)
        if (member.known) nodes.push_back(node);
    return nodes;
}

std::string HostDesk::mail_key(const NodeId& node, std::int64_t number) const {
    return fmt::format("/{}{}/news/{}", settings_.mail_prefix, node_text(node), number);
}

void HostDesk::written(std::uint64_t connection, const std::string& key, const std::string& value) {
    if (store_ == nullptr || !key.starts_with(settings_.live_prefix)) return;
    const auto node = parse_node(std::string_view(key).substr(settings_.live_prefix.size()));
    if (!node || (members_.size() >= members_max && !members_.contains(*node))) return;
    Member& member = members_[*node];
    member.heard = Clock::now();
    if (connections_.emplace(connection, *node).second) ++member.connections;
    const auto wish = decode_wish(*node, value);
    if (!wish) return;
    // What was written to a node that was taken for dead is gone, and it may have read more or less of it than we
    // think.
    if (!member.known && wish->reads)
        member.next_mail = member.fresh ? *wish->reads : std::max(member.next_mail, *wish->reads);
    if (wish->reads) {
        if (member.fresh) member.oldest_mail = *wish->reads;
        member.says_what_it_reads = true;
        take_away(*node, member, *wish->reads);
        if (!outdated_.empty()) store_->remove(std::exchange(outdated_, {}));
    }
    member.fresh = false;
    if (!wish->event) {
        // Its first message may still be on the way on its other connection.
        if (!member.known && member.next_mail > 0) {
            post(*node, NotAMember{});
            flush();
        }
        return;
    }
    if (std::holds_alternative<JoinWish>(*wish->event)) member.known = true;
    if (std::holds_alternative<LeaveWish>(*wish->event)) member.known = false;
    collect(*wish->event);
}

void HostDesk::closed(std::uint64_t connection) {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) return;
    const NodeId node = found->second;
    connections_.erase(found);
    const auto member = members_.find(node);
    if (member == members_.end() || --member->second.connections > 0) return;
    if (!member->second.known) {
        gone(node, {});
        return;
    }
    const auto timer = std::make_shared<boost::asio::steady_timer>(executor_, settings_.closed_grace);
    timer->async_wait([this, node, timer](boost::system::error_code) {
        const auto again = members_.find(node);
        if (store_ != nullptr && again != members_.end() && again->second.connections == 0)
            gone(node, "has closed its connection without a word");
    });
}

/// Forgets the node and its mail.
void HostDesk::gone(const NodeId& node, const std::string& how) {
    const auto member = members_.find(node);
    if (member == members_.end()) return;
    const bool was_known = member->second.known;
    take_away(node, member->second, member->second.next_mail);
    if (member->second.connections > 0) {
        member->second.known = false;
        member->second.fresh = true;
    } else {
        members_.erase(member);
    }
    if (store_ != nullptr && !outdated_.empty()) store_->remove(std::exchange(outdated_, {}));
    if (!was_known) return;
    if (!how.empty()) log(LogLevel::warning, fmt::format("{} {}", terminal_safe(node.addr), how), true);
    collect(NodeGone{node});
}

void HostDesk::take_away(const NodeId& node, Member& member, std::int64_t before) {
    for (before = std::min(before, member.next_mail); member.oldest_mail < before; ++member.oldest_mail)
        outdated_.push_back(mail_key(node, member.oldest_mail));
}

void HostDesk::look_for_silent() {
    silence_timer_.expires_after(silence_looked_for_every);
    silence_timer_.async_wait([this](boost::system::error_code error) {
        if (error || store_ == nullptr) return;
        const auto now = Clock::now();
        std::vector<NodeId> silent;
        for (const auto& [node, member] : members_)
            if (member.known && now - member.heard >= settings_.silent_after) silent.push_back(node);
        for (const NodeId& node : silent)
            gone(node, fmt::format("has not been heard of for {} s", settings_.silent_after.count() / 1000));
        look_for_silent();
    });
}

/// What comes within a moment is one change of the state: the more nodes, the longer the moment.
void HostDesk::collect(MembershipEvent event) {
    collected_.push_back(std::move(event));
    if (folding_) return;
    folding_ = true;
    const auto moment = std::min(fold_max, milliseconds(1 + members_.size() / members_per_millisecond));
    fold_timer_.expires_at(std::max(Clock::now(), folded_ + moment));
    fold_timer_.async_wait([this](boost::system::error_code error) {
        folding_ = false;
        folded_ = Clock::now();
        if (!error && store_ != nullptr) hand_over();
    });
}

void HostDesk::hand_over() {
    if (!collected_.empty()) feed_(std::exchange(collected_, {}));
}

void HostDesk::post(const NodeId& node, const HostMail& mail) {
    const auto member = members_.find(node);
    if (member == members_.end()) return;
    const std::int64_t number = member->second.next_mail++;
    outbox_.emplace_back(mail_key(node, number), encode_mail(mail, serial_++));
    if (member->second.next_mail - member->second.oldest_mail <= mails_kept) return;
    take_away(node, member->second, member->second.next_mail - mails_kept);
    // It would wait for ever for what was taken away: it is told that it is no member, with a number that it reads.
    if (member->second.known && member->second.says_what_it_reads)
        boost::asio::post(executor_, [this, node] {
            const auto again = members_.find(node);
            if (store_ != nullptr && again != members_.end() && again->second.known)
                gone(node, "does not read what it is told");
        });
}

void HostDesk::flush() {
    if (store_ == nullptr) return;
    if (!outbox_.empty()) store_->multi_set(std::exchange(outbox_, {}));
    if (!outdated_.empty()) store_->remove(std::exchange(outdated_, {}));
}

}  // namespace cpprun
