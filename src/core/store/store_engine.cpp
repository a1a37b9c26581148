// SPDX-License-Identifier: BSD-3-Clause
#include "core/store/store_engine.hpp"

#include "core/store/wire_codec.hpp"

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <array>
#include <charconv>

namespace cpprun {
namespace {

using Op = StoreOperation;

// What a map's node costs beside the bytes of its key, roughly; so that many empty keys are counted too. Ephemeral keys
// have two.
constexpr std::size_t node_bytes = 96;

constexpr const char* memory_fault = "the store's memory limit is reached";
constexpr const char* counter_fault = "a counter's key holds no number";

std::string decimal(std::int64_t number) {
    return std::to_string(number);
}

bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

std::size_t bytes_of(const StoreRequest& request) {
    std::size_t sum = request.key.size() + request.value.size() + 2 * node_bytes;
    for (const auto key : request.keys) sum += key.size() + 2 * node_bytes;
    for (const auto value : request.values) sum += value.size();
    return sum;
}

}  // namespace

struct StoreEngine::WaitNode : boost::intrusive::list_base_hook<> {
    StoreClientState* client = nullptr;
    Waiting::value_type* place = nullptr;
};

struct StoreWait {
    std::size_t missing = 0;
    boost::container::small_vector<StoreEngine::WaitNode, 1> nodes;
    std::size_t counted_bytes = 0;
};

StoreClientState::StoreClientState() = default;
StoreClientState::~StoreClientState() = default;

StoreEngine::StoreEngine(MemoryCount& memory, std::size_t memory_bytes_max, StoreRules rules)
    : memory_(memory), memory_bytes_max_(memory_bytes_max), rules_(std::move(rules)), has_rules_(rules_.any()) {}

StoreEngine::~StoreEngine() {
    clear();
}

std::optional<std::int64_t> parse_counter(std::string_view text) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return std::nullopt;
    return number;
}

const char* StoreEngine::apply(StoreClientState& client, const StoreRequest& request, ReplyBuffer& reply,
                               StoreDelivery& delivery) {
    ++requests_;
    if (has_rules_) note_intent(client, request);
    switch (request.operation) {
        case Op::set:
            if (!fits(bytes_of(request))) return memory_fault;
            put(request.key, request.value, delivery);
            if (has_rules_) note_written(client, request.key, request.value);
            return nullptr;
        case Op::get:
            if (const Blob* value = find(request.key)) {
                reply.add_value(*value);
            } else {
                reply.add_u64(0);
            }
            return nullptr;
        case Op::add:
            return add(client, request, reply, delivery);
        case Op::check:
            reply.add(std::ranges::all_of(request.keys, [&](auto key) { return present(key); })
                          ? store_reply::ready
                          : store_reply::not_ready);
            return nullptr;
        case Op::wait:
            if (!fits(bytes_of(request))) return memory_fault;
            wait(client, request.keys, reply);
            return nullptr;
        case Op::compare_set:
            if (!fits(bytes_of(request))) return memory_fault;
            if (compare_set(request, reply, delivery) && has_rules_) note_written(client, request.key, request.value);
            return nullptr;
        case Op::number_of_keys:
            reply.add_u64(values_.size());
            return nullptr;
        case Op::remove:
            reply.add_u64(remove(request.key, delivery) ? 1 : 0);
            return nullptr;
        case Op::append:
            if (const char* fault = append(request, delivery)) return fault;
            if (has_rules_) own(client, request.key);
            return nullptr;
        case Op::multi_get:
            for (const auto key : request.keys) {
                const Blob* value = find(key);
                reply.add_value(value != nullptr ? *value : Blob());
            }
            return nullptr;
        case Op::multi_set:
            if (!fits(bytes_of(request))) return memory_fault;
            for (std::size_t i = 0; i < request.keys.size(); ++i) {
                put(request.keys[i], request.values[i], delivery);
                if (has_rules_) note_written(client, request.keys[i], request.values[i]);
            }
            return nullptr;
        case Op::cancel_wait:
            cancel_wait(client);
            reply.add(store_reply::wait_cancelled);
            return nullptr;
        case Op::ping:
            reply.add_u32(request.nonce);
            return nullptr;
        case Op::queue_push:
            if (!fits(bytes_of(request))) return memory_fault;
            queue_push(request, delivery);
            return nullptr;
        case Op::queue_pop:
            queue_pop(request, reply);
            return nullptr;
        case Op::queue_length: {
            const auto found = queues_.find(request.key);
            reply.add_u64(found == queues_.end() ? 0 : found->second.size());
            return nullptr;
        }
        case Op::list_keys:
            list_keys(reply);
            return nullptr;
        case Op::barrier:
            return barrier(client, request, reply, delivery);
        case Op::watch:
            watch(client, request, reply);
            return nullptr;
    }
    return "unknown operation";
}

void StoreEngine::note_written(StoreClientState& client, std::string_view key, std::string_view value) {
    own(client, key);
    if (!rules_.observer || !begins_with_any(key, rules_.observed_prefixes)) return;
    client.observed = true;
    rules_.observer({StoreEvent::Kind::value_written, client.id, key, value});
}

// What was written last by `client`, if such keys are ephemeral.
void StoreEngine::own(StoreClientState& client, std::string_view key) {
    if (!begins_with_any(key, rules_.ephemeral_prefixes)) return;
    auto found = owned_.find(key);
    if (found == owned_.end()) {
        found = owned_.try_emplace(values_.find(key)->first).first;
        found->second.key = found->first;
        memory_.fetch_add(node_bytes, std::memory_order_relaxed);
    }
    found->second.unlink();
    client.owned.push_back(found->second);
}

void StoreEngine::disown(std::string_view key) {
    if (!owned_.empty() && owned_.erase(key) > 0) memory_.fetch_sub(node_bytes, std::memory_order_relaxed);
}

// Without a word to watchers: those of the generation that has them know no ephemeral keys.
void StoreEngine::drop_owned(StoreClientState& client) {
    while (!client.owned.empty()) {
        const auto found = values_.find(client.owned.front().key);
        disown(found->first);
        memory_.fetch_sub(found->first.size() + node_bytes, std::memory_order_relaxed);
        values_.erase(found);
    }
}

void StoreEngine::set(std::string_view key, std::string_view value, StoreDelivery& delivery) {
    disown(key);
    put(key, value, delivery);
}

std::optional<std::string> StoreEngine::get(std::string_view key) const {
    const Blob* value = find(key);
    if (value == nullptr) return std::nullopt;
    return std::string(value->view());
}

std::string StoreEngine::compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                                     StoreDelivery& delivery) {
    ReplyBuffer reply;
    if (compare_set({.key = key, .value = desired, .expected = expected}, reply, delivery)) disown(key);
    return get(key).value_or(std::string(expected));
}

void StoreEngine::note_intent(StoreClientState& client, const StoreRequest& request) const {
    if (client.agent) return;
    const auto is_agents = [&](std::string_view key) { return begins_with_any(key, rules_.agent_prefixes); };
    switch (request.operation) {
        case StoreOperation::set:
        case StoreOperation::add:
        case StoreOperation::compare_set:
        case StoreOperation::append:
            client.agent = is_agents(request.key);
            return;
        case StoreOperation::multi_set:
            client.agent = std::ranges::any_of(request.keys, is_agents);
            return;
        default:
            return;
    }
}

bool StoreEngine::fits(std::size_t more) const {
    const std::size_t used = memory_.load(std::memory_order_relaxed);
    return used <= memory_bytes_max_ && more <= memory_bytes_max_ - used;
}

const Blob* StoreEngine::find(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
}

bool StoreEngine::present(std::string_view key) const {
    return values_.contains(key) || queues_.contains(key);
}

void StoreEngine::store(std::string_view key, std::string_view value) {
    if (const auto found = values_.find(key); found != values_.end()) return found->second.assign(value, memory_);
    values_.emplace(key, Blob(value, memory_));
    memory_.fetch_add(key.size() + node_bytes, std::memory_order_relaxed);
}

void StoreEngine::put(std::string_view key, std::string_view value, StoreDelivery& delivery) {
    if (!watchers_.empty()) {
        const Blob* found = find(key);
        const Blob before = found != nullptr ? *found : Blob();
        report_change(key, found != nullptr ? store_reply::watch_updated : store_reply::watch_created, before.view(),
                      value, delivery);
    }
    store(key, value);
    wake_all(key, delivery);
}

const char* StoreEngine::add(StoreClientState& client, const StoreRequest& request, ReplyBuffer& reply,
                             StoreDelivery& delivery) {
    if (!fits(bytes_of(request))) return memory_fault;
    const Blob* value = find(request.key);
    const auto before = value != nullptr ? parse_counter(value->view()) : std::int64_t{0};
    if (!before) return counter_fault;
    // Real servers wrap around.
    const std::uint64_t sum = static_cast<std::uint64_t>(*before) + static_cast<std::uint64_t>(request.number);
    const std::string text = decimal(static_cast<std::int64_t>(sum));
    put(request.key, text, delivery);
    if (has_rules_) note_written(client, request.key, text);
    reply.add_u64(sum);
    return nullptr;
}

// True if it stored.
bool StoreEngine::compare_set(const StoreRequest& request, ReplyBuffer& reply, StoreDelivery& delivery) {
    const Blob* value = find(request.key);
    const bool matches = value != nullptr ? value->view() == request.expected : request.expected.empty();
    if (matches) {
        reply.add_u64(request.value.size());
        reply.add(request.value);
        put(request.key, request.value, delivery);
    } else if (value != nullptr) {
        reply.add_value(*value);
        // Only those of an unfinished barrier can still wait for a key that is there; libuv releases them here too.
        wake_all(request.key, delivery);
    } else {
        reply.add_u64(request.expected.size());
        reply.add(request.expected);
    }
    return matches;
}

const char* StoreEngine::append(const StoreRequest& request, StoreDelivery& delivery) {
    const auto found = values_.find(request.key);
    if (found == values_.end()) {
        if (!fits(bytes_of(request))) return memory_fault;
        put(request.key, request.value, delivery);
        return nullptr;
    }
    // It may have to move to a larger place.
    if (!fits(bytes_of(request) + 2 * found->second.view().size())) return memory_fault;
    const Blob before = watchers_.empty() ? Blob() : found->second;
    found->second.append(request.value, memory_);
    report_change(request.key, store_reply::watch_updated, before.view(), found->second.view(), delivery);
    wake_all(request.key, delivery);
    return nullptr;
}

const char* StoreEngine::barrier(StoreClientState& client, const StoreRequest& request, ReplyBuffer& reply,
                                 StoreDelivery& delivery) {
    if (!fits(bytes_of(request))) return memory_fault;
    const Blob* value = find(request.key);
    const auto before = value != nullptr ? parse_counter(value->view()) : std::int64_t{0};
    if (!before) return counter_fault;
    const auto arrived = static_cast<std::int64_t>(static_cast<std::uint64_t>(*before) + 1);
    store(request.key, decimal(arrived));
    if (arrived < request.number) {
        park(client, std::span(&request.key, 1));
        return nullptr;
    }
    wake_all(request.key, delivery);
    reply.add(store_reply::stop_waiting);
    return nullptr;
}

void StoreEngine::queue_push(const StoreRequest& request, StoreDelivery& delivery) {
    auto found = queues_.find(request.key);
    if (found == queues_.end()) {
        found = queues_.emplace(request.key, std::deque<Blob>()).first;
        memory_.fetch_add(request.key.size() + node_bytes, std::memory_order_relaxed);
    }
    found->second.emplace_back(request.value, memory_);
    wake_one(request.key, delivery);
}

void StoreEngine::queue_pop(const StoreRequest& request, ReplyBuffer& reply) {
    const auto found = queues_.find(request.key);
    if (found == queues_.end()) return reply.add_u64(0);
    reply.add_u64(found->second.size());
    reply.add_value(found->second.front());
    found->second.pop_front();
    if (!found->second.empty()) return;
    queues_.erase(found);
    memory_.fetch_sub(request.key.size() + node_bytes, std::memory_order_relaxed);
}

bool StoreEngine::remove(std::string_view key, StoreDelivery& delivery) {
    const auto found = values_.find(key);
    if (found == values_.end()) return false;
    report_change(key, store_reply::watch_deleted, found->second.view(), {}, delivery);
    disown(key);
    values_.erase(found);
    memory_.fetch_sub(key.size() + node_bytes, std::memory_order_relaxed);
    return true;
}

void StoreEngine::list_keys(ReplyBuffer& reply) const {
    reply.add_u64(values_.size());
    for (const auto& [key, value] : values_) {
        reply.add_u64(key.size());
        reply.add(key);
    }
}

void StoreEngine::wait(StoreClientState& client, std::span<const std::string_view> keys, ReplyBuffer& reply) {
    std::vector<std::string_view> missing;
    for (const auto key : keys) {
        if (!present(key)) missing.push_back(key);
    }
    if (missing.empty()) return reply.add(store_reply::stop_waiting);
    park(client, missing);
}

void StoreEngine::park(StoreClientState& client, std::span<const std::string_view> keys) {
    // One wait for each client: a second one takes the place of the first, as only one answer ever comes.
    cancel_wait(client);
    client.wait = std::make_unique<StoreWait>();
    client.wait->missing = keys.size();
    client.wait->nodes.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
        auto place = waiting_.find(keys[i]);
        if (place == waiting_.end()) place = waiting_.emplace(keys[i], WaitList()).first;
        WaitNode& node = client.wait->nodes[i];
        node.client = &client;
        node.place = &*place;
        place->second.push_back(node);
        client.wait->counted_bytes += keys[i].size() + node_bytes;
    }
    memory_.fetch_add(client.wait->counted_bytes, std::memory_order_relaxed);
}

void StoreEngine::cancel_wait(StoreClientState& client) {
    if (!client.wait) return;
    for (WaitNode& node : client.wait->nodes) {
        if (!node.is_linked()) continue;
        WaitList& list = node.place->second;
        list.erase(list.iterator_to(node));
        if (list.empty()) waiting_.erase(waiting_.find(node.place->first));
    }
    memory_.fetch_sub(client.wait->counted_bytes, std::memory_order_relaxed);
    client.wait.reset();
}

bool StoreEngine::count_down(WaitNode& node, StoreDelivery& delivery) {
    StoreClientState& client = *node.client;
    if (--client.wait->missing > 0) return false;
    memory_.fetch_sub(client.wait->counted_bytes, std::memory_order_relaxed);
    client.wait.reset();
    delivery.deliver(client, {&store_reply::stop_waiting, 1});
    return true;
}

void StoreEngine::wake_all(std::string_view key, StoreDelivery& delivery) {
    if (waiting_.empty()) return;
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return;
    WaitList& list = found->second;
    while (!list.empty()) {
        WaitNode& node = list.front();
        list.pop_front();
        count_down(node, delivery);
    }
    waiting_.erase(found);
}

void StoreEngine::wake_one(std::string_view key, StoreDelivery& delivery) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return;
    WaitList& list = found->second;
    // One whose wait lacks other keys as well does not take the item: the next in the row may.
    for (bool released = false; !list.empty() && !released;) {
        WaitNode& node = list.front();
        list.pop_front();
        released = count_down(node, delivery);
    }
    if (list.empty()) waiting_.erase(found);
}

void StoreEngine::watch(StoreClientState& client, const StoreRequest& request, ReplyBuffer& reply) {
    auto found = watchers_.find(request.key);
    if (found == watchers_.end()) found = watchers_.emplace(request.key, std::vector<StoreClientState*>()).first;
    if (std::ranges::find(found->second, &client) == found->second.end()) {
        found->second.push_back(&client);
        client.watched.emplace_back(request.key);
    }
    reply.add(store_reply::watch_registered);
}

void StoreEngine::report_change(std::string_view key, char kind, std::string_view before, std::string_view after,
                                StoreDelivery& delivery) {
    if (watchers_.empty()) return;
    const auto found = watchers_.find(key);
    if (found == watchers_.end()) return;
    std::string event(1, kind);
    for (const auto field : std::array{key, before, after}) {
        append_u64(event, field.size());
        event.append(field);
    }
    for (StoreClientState* client : found->second) delivery.deliver(*client, event);
}

void StoreEngine::forget(StoreClientState& client) {
    cancel_wait(client);
    for (const std::string& key : client.watched) {
        const auto found = watchers_.find(key);
        if (found == watchers_.end()) continue;
        std::erase(found->second, &client);
        if (found->second.empty()) watchers_.erase(found);
    }
    client.watched.clear();
    drop_owned(client);
    if (rules_.observer && (client.agent || client.observed)) {
        rules_.observer({.kind = StoreEvent::Kind::connection_closed, .client = client.id});
    }
}

void StoreEngine::clear() {
    std::size_t counted = owned_.size() * node_bytes;
    owned_.clear();
    for (const auto& [key, value] : values_) counted += key.size() + node_bytes;
    for (const auto& [key, queue] : queues_) counted += key.size() + node_bytes;
    memory_.fetch_sub(counted, std::memory_order_relaxed);
    ByKey<Blob>().swap(values_);
    ByKey<std::deque<Blob>>().swap(queues_);
}

void StoreEngine::clear_but(const std::vector<std::string>& prefixes) {
    std::size_t counted =
        node_bytes * std::erase_if(owned_, [&](const auto& entry) { return !begins_with_any(entry.first, prefixes); });
    const auto goes = [&](const auto& entry) {
        if (begins_with_any(entry.first, prefixes)) return false;
        counted += entry.first.size() + node_bytes;
        return true;
    };
    std::erase_if(values_, goes);
    std::erase_if(queues_, goes);
    memory_.fetch_sub(counted, std::memory_order_relaxed);
    values_.rehash(0);
    queues_.rehash(0);
}

}  // namespace cpprun
