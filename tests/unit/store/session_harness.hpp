// SPDX-License-Identifier: BSD-3-Clause
// A store with any number of clients and no sockets: what each would read, as a string.
#pragma once

#include "core/store/store_session.hpp"
#include "core/store/wire_codec.hpp"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun::test {

inline std::string flat(const ReplyBuffer& reply) {
    std::string text;
    std::size_t begin = 0;
    for (const auto& shared : reply.shared()) {
        text += reply.bytes().substr(begin, shared.offset - begin);
        text += shared.blob.view();
        begin = shared.offset;
    }
    return text + reply.bytes().substr(begin);
}

class StoreHarness : StoreDelivery {
  public:
    explicit StoreHarness(StoreLimits limits = {}, std::optional<StoreGeneration> legacy = {}, StoreRules rules = {})
        : engine(memory, limits.memory_bytes, std::move(rules)), context_{engine, limits, legacy} {}
    ~StoreHarness() override {
        while (!sessions_.empty()) leave(sessions_.begin()->first);
    }

    /// What the client reads at once in answer to these bytes, and what had reached it before.
    std::string send(int client, std::string_view bytes) {
        Session& session = at(client);
        current_ = &session;
        ReplyBuffer reply;
        reply_ = &reply;
        session.status = session.session.serve(context_, bytes, reply, *this);
        while (session.status == StoreSession::Status::paused) {
            session.inbox += flat(reply);
            reply.clear();
            ++session.pauses;
            session.status = session.session.serve(context_, {}, reply, *this);
        }
        current_ = nullptr;
        session.inbox += flat(reply);
        return read(client);
    }
    std::string ask(int client, const StoreRequest& request) {
        std::string bytes;
        if (!at(client).session.greeted()) bytes.assign(store_handshake.data(), store_handshake.size());
        encode_request(request, bytes);
        return send(client, bytes);
    }
    /// What has reached the client since it last read.
    std::string read(int client) { return std::exchange(at(client).inbox, {}); }
    bool rejected(int client) { return at(client).status == StoreSession::Status::rejected; }
    std::string fault(int client) { return at(client).session.fault(); }
    StoreDelivery& delivery() { return *this; }
    int pauses(int client) { return at(client).pauses; }
    std::size_t held_bytes(int client) { return at(client).session.held_bytes(); }
    void leave(int client) {
        engine.forget(at(client).session.client());
        sessions_.erase(client);
    }

    // Requests by name, for client 1 unless said otherwise.
    void set(const std::string& key, const std::string& value, int client = 1) {
        ask(client, {.operation = StoreOperation::set, .key = key, .value = value});
    }
    std::string get(const std::string& key, int client = 1) {
        const std::string reply = ask(client, {.operation = StoreOperation::get, .key = key});
        return reply.size() < 8 ? "no reply" : reply.substr(8);
    }
    std::string add(const std::string& key, std::int64_t number, int client = 1) {
        const std::string reply = ask(client, {.operation = StoreOperation::add, .key = key, .number = number});
        return reply.size() == 8 ? std::to_string(static_cast<std::int64_t>(read_u64(reply.data()))) : "no reply";
    }
    std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
        return ask(1, {.operation = StoreOperation::compare_set, .key = key, .value = desired, .expected = expected})
            .substr(8);
    }
    std::string wait(int client, std::vector<std::string_view> keys) {
        return ask(client, {.operation = StoreOperation::wait, .keys = keys});
    }
    std::string barrier(int client, const std::string& key, std::int64_t size) {
        return ask(client, {.operation = StoreOperation::barrier, .key = key, .number = size});
    }
    void push(const std::string& key, const std::string& value, int client = 1) {
        ask(client, {.operation = StoreOperation::queue_push, .key = key, .value = value});
    }
    std::string pop(const std::string& key, int client = 1) {
        const std::string reply = ask(client, {.operation = StoreOperation::queue_pop, .key = key});
        return reply.size() < 16 ? "empty" : reply.substr(16);
    }

    MemoryCount memory{0};
    StoreEngine engine;

  private:
    struct Session {
        StoreSession session;
        StoreSession::Status status = StoreSession::Status::open;
        std::string inbox;
        int pauses = 0;
    };

    Session& at(int client) {
        auto& session = sessions_[client];
        if (!session) {
            session = std::make_unique<Session>();
            session->session.client().owner = session.get();
            session->session.client().id = static_cast<std::uint64_t>(client);
        }
        return *session;
    }
    void deliver(StoreClientState& client, std::string_view bytes) override {
        auto* session = static_cast<Session*>(client.owner);
        if (session == current_) return reply_->add(bytes);
        session->inbox += bytes;
    }

    StoreSessionContext context_;
    std::map<int, std::unique_ptr<Session>> sessions_;
    Session* current_ = nullptr;
    ReplyBuffer* reply_ = nullptr;
};

}  // namespace cpprun::test
