// SPDX-License-Identifier: BSD-3-Clause
// The key-value engine: keys, counters, queues, barriers, and who waits for what. It knows no sockets and no clock; a
// wait ends when its keys were created, when it is cancelled or when its client is forgotten.
#pragma once

#include "core/store/blob.hpp"
#include "core/store/messages.hpp"
#include "core/store/reply_buffer.hpp"
#include "core/store/store_rules.hpp"

#include <boost/intrusive/list.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace cpprun {

struct StoreWait;

/// An ephemeral key in the list of the client that it goes with. It leaves the list by itself.
struct StoreOwnedKey : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    std::string_view key;
};
using StoreOwnedKeys = boost::intrusive::list<StoreOwnedKey, boost::intrusive::constant_time_size<false>>;

/// What the engine knows about one client. Lives in the connection; forget() must be called before it goes.
struct StoreClientState {
    StoreClientState();
    StoreClientState(const StoreClientState&) = delete;
    StoreClientState& operator=(const StoreClientState&) = delete;
    ~StoreClientState();

    std::unique_ptr<StoreWait> wait;   ///< the pending wait or barrier; at most one
    StoreOwnedKeys owned;              ///< ephemeral keys that this client wrote last
    std::vector<std::string> watched;  ///< generation A: keys whose changes are reported to this client
    std::uint64_t id = 0;              ///< names this client for the observer; whoever makes clients numbers them
    bool observed = false;             ///< it wrote an observed key
    bool agent = false;                ///< it wrote a key of an agent's; StoreRules says which those are
    void* owner = nullptr;             ///< the deliverer's own note of whom this belongs to; the engine ignores it
};

/// Where the engine puts what concerns other clients than the one it serves: a released wait, a watch event.
class StoreDelivery {
  public:
    virtual ~StoreDelivery() = default;
    /// `bytes` are to be sent to `client`, behind all that was for it before. Must not call back into the engine.
    virtual void deliver(StoreClientState& client, std::string_view bytes) = 0;
};

class StoreEngine {
  public:
    /// `memory` counts what the engine holds, next to whatever else the caller counts there; it must outlive the engine
    /// and all replies. No request is applied that would pass `memory_bytes_max`.
    StoreEngine(MemoryCount& memory, std::size_t memory_bytes_max, StoreRules rules = {});
    StoreEngine(const StoreEngine&) = delete;
    StoreEngine& operator=(const StoreEngine&) = delete;
    ~StoreEngine();

    /// Applies one request of `client`. Its reply, if it has one now, goes to `reply`; others hear through `delivery`.
    /// Null: all is well. Otherwise the reason, a fragment of a sentence, why the client must be closed; nothing of the
    /// request was applied then.
    const char* apply(StoreClientState& client, const StoreRequest& request, ReplyBuffer& reply,
                      StoreDelivery& delivery);

    /// For the process that owns the store: as set, get, compare_set and delete of a client, and whoever waits is woken
    /// alike. The memory limit does not hold: the store's own process must go on when its clients have filled it.
    void set(std::string_view key, std::string_view value, StoreDelivery& delivery);
    std::optional<std::string> get(std::string_view key) const;
    std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                            StoreDelivery& delivery);
    bool remove(std::string_view key, StoreDelivery& delivery);

    /// Drops whatever `client` waits for or watches, and the ephemeral keys that it owns. The observer hears of its
    /// end.
    void forget(StoreClientState& client);

    /// Drops what `client` waits for, without a word.
    void cancel_wait(StoreClientState& client);

    /// Forgets all keys and queues. All clients must have been forgotten before.
    void clear();

    /// Forgets the keys and queues that begin with none of `prefixes`. Clients stay, and whoever waits goes on waiting.
    void clear_but(const std::vector<std::string>& prefixes);

    std::size_t number_of_keys() const { return values_.size(); }
    /// That clients have made so far.
    std::uint64_t requests() const { return requests_; }
    /// Keys that somebody waits for.
    std::size_t awaited_keys() const { return waiting_.size(); }

  private:
    struct TextHash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
    };
    template <class T>
    using ByKey = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;
    friend struct StoreWait;
    struct WaitNode;
    using WaitList = boost::intrusive::list<WaitNode, boost::intrusive::constant_time_size<false>>;
    using Waiting = ByKey<WaitList>;

    const char* add(StoreClientState& client, const StoreRequest& request, ReplyBuffer& reply, StoreDelivery& delivery);
    bool compare_set(const StoreRequest& request, ReplyBuffer& reply, StoreDelivery& delivery);
    const char* append(const StoreRequest& request, StoreDelivery& delivery);
    const char* barrier(StoreClientState& client, const StoreRequest& request, ReplyBuffer& reply,
                        StoreDelivery& delivery);
    void queue_push(const StoreRequest& request, StoreDelivery& delivery);
    void queue_pop(const StoreRequest& request, ReplyBuffer& reply);
    void wait(StoreClientState& client, std::span<const std::string_view> keys, ReplyBuffer& reply);
    void watch(StoreClientState& client, const StoreRequest& request, ReplyBuffer& reply);
    void list_keys(ReplyBuffer& reply) const;

    void note_intent(StoreClientState& client, const StoreRequest& request) const;
    void note_written(StoreClientState& client, std::string_view key, std::string_view value);
    void own(StoreClientState& client, std::string_view key);
    void disown(std::string_view key);
    void drop_owned(StoreClientState& client);
    const Blob* find(std::string_view key) const;
    bool present(std::string_view key) const;
    bool fits(std::size_t more) const;
    void put(std::string_view key, std::string_view value, StoreDelivery& delivery);
    void store(std::string_view key, std::string_view value);
    void park(StoreClientState& client, std::span<const std::string_view> keys);
    void wake_all(std::string_view key, StoreDelivery& delivery);
    void wake_one(std::string_view key, StoreDelivery& delivery);
    bool count_down(WaitNode& node, StoreDelivery& delivery);
    void report_change(std::string_view key, char kind, std::string_view before, std::string_view after,
                       StoreDelivery& delivery);

    MemoryCount& memory_;
    std::size_t memory_bytes_max_;
    StoreRules rules_;
    std::uint64_t requests_ = 0;
    bool has_rules_;
    ByKey<Blob> values_;
    ByKey<std::deque<Blob>> queues_;
    Waiting waiting_;
    ByKey<std::vector<StoreClientState*>> watchers_;
    std::unordered_map<std::string_view, StoreOwnedKey> owned_;  // by the names in values_
};

/// The value that a counter's text stands for, read as C's strtoll reads it in base 10; none: no number, or out of
/// range.
std::optional<std::int64_t> parse_counter(std::string_view text);

}  // namespace cpprun
