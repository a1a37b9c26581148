// SPDX-License-Identifier: BSD-3-Clause
// Bytes to requests, and requests to bytes. The decoder takes any fragmentation, never trusts a length, and never reads
// a byte of a long request twice.
#pragma once

#include "core/store/messages.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// Decodes the requests of one connection, one after the other. It holds no bytes: the caller passes the same request
/// again, with more behind it, until it is complete.
class RequestDecoder {
  public:
    enum class Status {
        complete,    ///< request() is valid, consumed() bytes belong to it
        incomplete,  ///< more bytes are needed
        bad,         ///< the stream makes no sense or passes a limit: fault() says which; close the connection
    };

    explicit RequestDecoder(const StoreLimits& limits = {}, StoreGeneration generation = StoreGeneration::current)
        : limits_(limits), generation_(generation) {}

    /// Goes on with the request that `bytes` begins with. After `incomplete` the next call must bring the same bytes
    /// with more appended, at any address; after `complete` the bytes that follow the consumed ones.
    Status next(std::string_view bytes);

    /// The decoded request; its views point into the bytes of the last call. Valid after `complete`, until next().
    const StoreRequest& request() const { return request_; }
    /// How many bytes the request took. Valid after `complete`.
    std::size_t consumed() const { return scan_; }
    /// Why the stream is bad, a fragment of a sentence. Valid after `bad`.
    const std::string& fault() const { return fault_; }

    void set_generation(StoreGeneration generation) { generation_ = generation; }
    StoreGeneration generation() const { return generation_; }

  private:
    struct Slice {
        std::size_t offset;
        std::size_t length;
    };

    Status begin(std::string_view bytes);
    Status scan_fields(std::string_view bytes);
    Status scan_field(std::string_view bytes, char field);
    Status scan_slice(std::string_view bytes, bool is_key);
    Status scan_list(std::string_view bytes, bool with_values);
    Status bad(std::string fault);
    void materialise(std::string_view bytes);

    StoreLimits limits_;
    StoreGeneration generation_;
    bool started_ = false;
    std::string_view shape_;
    std::size_t field_ = 0;
    std::size_t scan_ = 0;
    bool list_counted_ = false;
    std::uint64_t list_left_ = 0;
    std::vector<Slice> slices_;
    std::vector<std::string_view> views_;
    StoreRequest request_;
    std::string fault_;
};

/// Appends one request of the current generation to `out`. The fields that the operation has must be set.
void encode_request(const StoreRequest& request, std::string& out);

/// How a client of the current generation opens: the handshake, and a ping whose echo proves that the peer is a store.
/// PyTorch before 2.2 takes the handshake for the length of a key; the nonce makes it one that it refuses at once and
/// does not try to allocate.
std::string store_greeting(std::uint32_t nonce);
/// A nonce that is good for that, told apart by the process's number.
std::uint32_t greeting_nonce(std::uint32_t pid);

/// Keys as users write them to keys on the wire: PyTorch's clients put a '/' before each.
std::string wire_key(std::string_view key);
std::vector<std::string> wire_keys(std::span<const std::string> keys);

/// Little-endian numbers, as every platform in use sends them.
void append_u64(std::string& out, std::uint64_t number);
std::uint64_t read_u64(const char* bytes);
void append_u32(std::string& out, std::uint32_t number);
std::uint32_t read_u32(const char* bytes);

}  // namespace cpprun
