// SPDX-License-Identifier: BSD-3-Clause
#include "core/store/store_session.hpp"

#include <algorithm>

namespace cpprun {
namespace {

std::string as_text(char byte) {
    if (byte > ' ' && byte <= '~') return std::string("'") + byte + "'";
    return "byte " + std::to_string(static_cast<unsigned char>(byte));
}

}  // namespace

StoreSession::Status StoreSession::reject(std::string fault) {
    fault_ = std::make_unique<std::string>(std::move(fault));
    return Status::rejected;
}

void StoreSession::keep(std::string_view bytes) {
    if (bytes.empty()) return;
    if (!rest_) rest_ = std::make_unique<Rest>();
    rest_->bytes.append(bytes);
}

StoreSession::Status StoreSession::serve(StoreSessionContext& context, std::string_view bytes, ReplyBuffer& reply,
                                         StoreDelivery& delivery) {
    if (rest_) {
        rest_->bytes.append(bytes);
        return resume(context, reply, delivery);
    }
    if (!greeted_) {
        if (const Status status = greet(context, bytes); status != Status::open) return status;
    }
    const Status status = greeted_ ? work(context, bytes, reply, delivery) : Status::open;
    if (status == Status::rejected) return status;
    if (!bytes.empty()) keep(bytes);
    if (rest_ && greeted_ && status == Status::open) {
        // The shared decoder has read this much of it already; leave it what it knows.
        rest_->decoder.emplace(std::move(context.decoder));
        context.decoder = RequestDecoder(context.limits);
    }
    return status;
}

StoreSession::Status StoreSession::continue_rest(StoreSessionContext& context, std::size_t count, ReplyBuffer& reply,
                                                 StoreDelivery& delivery) {
    rest_->bytes.commit(count);
    return resume(context, reply, delivery);
}

StoreSession::Status StoreSession::resume(StoreSessionContext& context, ReplyBuffer& reply, StoreDelivery& delivery) {
    const std::unique_ptr<Rest> rest = std::move(rest_);
    std::string_view bytes = rest->bytes.view();
    if (rest->decoder) {
        RequestDecoder& decoder = *rest->decoder;
        const auto decoded = decoder.next(bytes);
        if (decoded == RequestDecoder::Status::bad) return reject(decoder.fault());
        if (decoded == RequestDecoder::Status::incomplete) {
            rest_ = std::make_unique<Rest>(std::move(*rest));
            return Status::open;
        }
        bytes.remove_prefix(decoder.consumed());
        if (const Status status = apply(context, decoder.request(), reply, delivery); status != Status::open) {
            keep(status == Status::paused ? bytes : std::string_view());
            return status;
        }
    }
    if (bytes.empty()) return Status::open;
    return serve(context, bytes, reply, delivery);
}

StoreSession::Status StoreSession::greet(StoreSessionContext& context, std::string_view& bytes) {
    const std::string_view handshake(store_handshake.data(), store_handshake.size());
    const std::string_view given = bytes.substr(0, handshake.size());
    if (handshake.starts_with(given)) {
        if (given.size() < handshake.size()) return Status::open;
        greeted_ = true;
        bytes.remove_prefix(handshake.size());
        return Status::open;
    }
    if (!context.legacy) {
        return reject(given.front() == handshake.front() ? "a handshake with a wrong magic number"
                                                         : "no handshake, but " + as_text(given.front()));
    }
    greeted_ = true;
    generation_ = *context.legacy;
    return Status::open;
}

StoreSession::Status StoreSession::work(StoreSessionContext& context, std::string_view& bytes, ReplyBuffer& reply,
                                        StoreDelivery& delivery) {
    RequestDecoder& decoder = context.decoder;
    decoder.set_generation(generation_);
    while (!bytes.empty()) {
        const auto decoded = decoder.next(bytes);
        if (decoded == RequestDecoder::Status::incomplete) return Status::open;
        if (decoded == RequestDecoder::Status::bad) {
            Status rejected = reject(decoder.fault());
            decoder = RequestDecoder(context.limits);
            return rejected;
        }
        bytes.remove_prefix(decoder.consumed());
        if (const Status status = apply(context, decoder.request(), reply, delivery); status != Status::open)
            return status;
    }
    return Status::open;
}

StoreSession::Status StoreSession::apply(StoreSessionContext& context, const StoreRequest& request, ReplyBuffer& reply,
                                         StoreDelivery& delivery) {
    // Clients of these generations are strictly one request at a time and, in A, do not say that they gave up a wait.
    if (generation_ != StoreGeneration::current) context.engine.cancel_wait(client_);
    if (const char* fault = context.engine.apply(client_, request, reply, delivery)) {
        return reject(std::string(store_operation_name(request.operation)) + ": " + fault);
    }
    return reply.size() > context.limits.reply_backlog_bytes ? Status::paused : Status::open;
}

}  // namespace cpprun
