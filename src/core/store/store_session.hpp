// SPDX-License-Identifier: BSD-3-Clause
// One client's side of a store: the handshake, half requests, requests in order, and a stop when replies pile up. Bytes
// in, bytes out; sockets and deadlines are the server's.
#pragma once

#include "core/store/byte_buffer.hpp"
#include "core/store/store_engine.hpp"
#include "core/store/wire_codec.hpp"

#include <memory>
#include <string>

namespace cpprun {

/// What all sessions served by one thread share.
struct StoreSessionContext {
    StoreEngine& engine;
    StoreLimits limits = {};
    /// Which generation a connection without a handshake speaks; none: such a connection is refused.
    std::optional<StoreGeneration> legacy = {};
    RequestDecoder decoder = RequestDecoder(limits);
};

class StoreSession {
  public:
    enum class Status {
        open,      ///< all bytes were taken; waiting for more
        paused,    ///< replies piled up: send them, then call serve() again, with no new bytes
        rejected,  ///< the stream makes no sense or passes a limit: fault() says which; close the connection
    };

    /// Takes `bytes` as they arrived, applies the requests that they complete and adds the replies to `reply`.
    Status serve(StoreSessionContext& context, std::string_view bytes, ReplyBuffer& reply, StoreDelivery& delivery);

    /// True once the handshake is done, or the connection was found to be of an older generation.
    bool greeted() const { return greeted_; }
    /// True while a request has begun and not ended, or requests wait because of a pause.
    bool has_rest() const { return rest_ != nullptr; }
    /// Where bytes that continue a half request can be received without another copy; then continue_rest(count).
    /// Only while has_rest().
    char* rest_room(std::size_t count) { return rest_->bytes.room(count); }
    /// As serve(), with the `count` bytes that were received into rest_room().
    Status continue_rest(StoreSessionContext& context, std::size_t count, ReplyBuffer& reply, StoreDelivery& delivery);
    /// Bytes held for half requests.
    std::size_t held_bytes() const { return rest_ ? rest_->bytes.capacity() : 0; }
    std::string fault() const { return fault_ ? *fault_ : std::string(); }

    StoreClientState& client() { return client_; }

  private:
    struct Rest {
        ByteBuffer bytes;
        std::optional<RequestDecoder> decoder;  // none: between two requests
    };

    Status greet(StoreSessionContext& context, std::string_view& bytes);
    Status work(StoreSessionContext& context, std::string_view& bytes, ReplyBuffer& reply, StoreDelivery& delivery);
    Status resume(StoreSessionContext& context, ReplyBuffer& reply, StoreDelivery& delivery);
    Status apply(StoreSessionContext& context, const StoreRequest& request, ReplyBuffer& reply,
                 StoreDelivery& delivery);
    Status reject(std::string fault);
    void keep(std::string_view bytes);

    StoreClientState client_;
    std::unique_ptr<Rest> rest_;
    std::unique_ptr<std::string> fault_;
    StoreGeneration generation_ = StoreGeneration::current;
    bool greeted_ = false;
};

}  // namespace cpprun
