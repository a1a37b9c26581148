// SPDX-License-Identifier: BSD-3-Clause
#include "core/store/wire_codec.hpp"

#include <bit>
#include <cstring>

namespace cpprun {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the protocol is in host order; only little-endian is in use");

using Op = StoreOperation;

// k: a key, v: a value, n: a 64-bit number, m: a 32-bit number, L: a list of keys, P: a list of keys with values.
std::string_view shape_of(StoreOperation operation) {
    switch (operation) {
        case Op::set:
        case Op::append:
        case Op::queue_push:
            return "kv";
        case Op::compare_set:
            return "kvv";
        case Op::get:
        case Op::watch:
        case Op::remove:
        case Op::queue_pop:
        case Op::queue_length:
            return "k";
        case Op::add:
        case Op::barrier:
            return "kn";
        case Op::check:
        case Op::wait:
        case Op::multi_get:
            return "L";
        case Op::multi_set:
            return "P";
        case Op::ping:
            return "m";
        case Op::number_of_keys:
        case Op::cancel_wait:
        case Op::list_keys:
            return "";
    }
    return "";
}

constexpr std::size_t kept_slices = 4096;

}  // namespace

void append_u64(std::string& out, std::uint64_t number) {
    std::array<char, sizeof number> bytes{};
    std::memcpy(bytes.data(), &number, sizeof number);
    out.append(bytes.data(), bytes.size());
}

std::uint64_t read_u64(const char* bytes) {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes, sizeof number);
    return number;
}

void append_u32(std::string& out, std::uint32_t number) {
    std::array<char, sizeof number> bytes{};
    std::memcpy(bytes.data(), &number, sizeof number);
    out.append(bytes.data(), bytes.size());
}

std::uint32_t read_u32(const char* bytes) {
    std::uint32_t number = 0;
    std::memcpy(&number, bytes, sizeof number);
    return number;
}

RequestDecoder::Status RequestDecoder::bad(std::string fault) {
    fault_ = std::move(fault);
    return Status::bad;
}

RequestDecoder::Status RequestDecoder::next(std::string_view bytes) {
    if (!started_) {
        if (const Status status = begin(bytes); status != Status::complete) return status;
    }
    if (const Status status = scan_fields(bytes); status != Status::complete) return status;
    started_ = false;
    materialise(bytes);
    return Status::complete;
}

RequestDecoder::Status RequestDecoder::begin(std::string_view bytes) {
    if (bytes.empty()) return Status::incomplete;
    const auto number = static_cast<std::uint8_t>(bytes.front());
    const auto operation = store_operation(generation_, number);
    if (!operation) {
        return bad(number == 0 ? "a second handshake" : "unknown operation " + std::to_string(number));
    }
    started_ = true;
    request_ = {};
    request_.operation = *operation;
    shape_ = shape_of(*operation);
    field_ = 0;
    scan_ = 1;
    list_counted_ = false;
    slices_.clear();
    return Status::complete;
}

RequestDecoder::Status RequestDecoder::scan_fields(std::string_view bytes) {
    for (; field_ < shape_.size(); ++field_) {
        const bool guess = generation_ == StoreGeneration::a_or_b && request_.operation == StoreOperation::append;
        // Generation A's delete has nothing behind its key, and its client waits for the answer; generation B sends key
        // and value in one piece.
        if (guess && field_ == 1 && scan_ == bytes.size()) {
            request_.operation = StoreOperation::remove;
            shape_ = "k";
            break;
        }
        if (const Status status = scan_field(bytes, shape_[field_]); status != Status::complete) return status;
    }
    return Status::complete;
}

RequestDecoder::Status RequestDecoder::scan_field(std::string_view bytes, char field) {
    switch (field) {
        case 'k':
            return scan_slice(bytes, true);
        case 'v':
            return scan_slice(bytes, false);
        case 'L':
            return scan_list(bytes, false);
        case 'P':
            return scan_list(bytes, true);
        case 'm':
            if (bytes.size() - scan_ < sizeof(std::uint32_t)) return Status::incomplete;
            request_.nonce = read_u32(bytes.data() + scan_);
            scan_ += sizeof(std::uint32_t);
            return Status::complete;
        default:
            if (bytes.size() - scan_ < sizeof(std::uint64_t)) return Status::incomplete;
            request_.number = static_cast<std::int64_t>(read_u64(bytes.data() + scan_));
            scan_ += sizeof(std::uint64_t);
            return Status::complete;
    }
}

RequestDecoder::Status RequestDecoder::scan_slice(std::string_view bytes, bool is_key) {
    if (bytes.size() - scan_ < sizeof(std::uint64_t)) return Status::incomplete;
    const std::uint64_t length = read_u64(bytes.data() + scan_);
    const std::size_t limit = is_key ? limits_.key_bytes : limits_.value_bytes;
    if (length > limit) {
        return bad("a " + std::string(is_key ? "key" : "value") + " of " + std::to_string(length) +
                   " bytes, the limit is " + std::to_string(limit));
    }
    const std::size_t begin = scan_ + sizeof(std::uint64_t);
    if (begin + length > limits_.request_bytes) {
        return bad("a request of more than " + std::to_string(limits_.request_bytes) + " bytes");
    }
    if (bytes.size() - begin < length) return Status::incomplete;
    slices_.push_back({begin, length});
    scan_ = begin + length;
    return Status::complete;
}

RequestDecoder::Status RequestDecoder::scan_list(std::string_view bytes, bool with_values) {
    if (!list_counted_) {
        if (bytes.size() - scan_ < sizeof(std::uint64_t)) return Status::incomplete;
        const std::uint64_t count = read_u64(bytes.data() + scan_);
        if (count > limits_.keys_per_request) {
            return bad("a list of " + std::to_string(count) + " keys, the limit is " +
                       std::to_string(limits_.keys_per_request));
        }
        scan_ += sizeof(std::uint64_t);
        list_left_ = with_values ? 2 * count : count;
        list_counted_ = true;
    }
    for (; list_left_ > 0; --list_left_) {
        const bool is_key = !with_values || list_left_ % 2 == 0;
        if (const Status status = scan_slice(bytes, is_key); status != Status::complete) return status;
    }
    return Status::complete;
}

void RequestDecoder::materialise(std::string_view bytes) {
    const auto view = [&](std::size_t i) { return bytes.substr(slices_[i].offset, slices_[i].length); };
    if (shape_ == "L" || shape_ == "P") {
        const std::size_t lists = shape_ == "P" ? 2 : 1;
        const std::size_t count = slices_.size() / lists;
        if (views_.capacity() > kept_slices && slices_.size() <= kept_slices)
            std::vector<std::string_view>().swap(views_);
        views_.resize(slices_.size());
        for (std::size_t i = 0; i < slices_.size(); ++i) views_[(i % lists) * count + i / lists] = view(i);
        request_.keys = std::span(views_).first(count);
        request_.values = std::span(views_).subspan(count);
        if (slices_.capacity() > kept_slices && slices_.size() <= kept_slices) slices_.shrink_to_fit();
        return;
    }
    if (!slices_.empty()) request_.key = view(0);
    if (slices_.size() == 2) request_.value = view(1);
    if (slices_.size() == 3) {
        request_.expected = view(1);
        request_.value = view(2);
    }
}

namespace {

void append_bytes(std::string& out, std::string_view bytes) {
    append_u64(out, bytes.size());
    out.append(bytes);
}

void append_list(std::string& out, const StoreRequest& request, bool with_values) {
    append_u64(out, request.keys.size());
    for (std::size_t i = 0; i < request.keys.size(); ++i) {
        append_bytes(out, request.keys[i]);
        if (with_values) append_bytes(out, request.values[i]);
    }
}

}  // namespace

void encode_request(const StoreRequest& request, std::string& out) {
    out.push_back(static_cast<char>(store_operation_number(request.operation)));
    const std::string_view shape = shape_of(request.operation);
    if (shape == "m") append_u32(out, request.nonce);
    if (shape == "L" || shape == "P") append_list(out, request, shape == "P");
    if (!shape.empty() && shape.front() == 'k') append_bytes(out, request.key);
    if (shape == "kvv") append_bytes(out, request.expected);
    if (shape == "kv" || shape == "kvv") append_bytes(out, request.value);
    if (shape == "kn") append_u64(out, static_cast<std::uint64_t>(request.number));
}

std::string store_greeting(std::uint32_t nonce) {
    std::string greeting(store_handshake.data(), store_handshake.size());
    encode_request({.operation = StoreOperation::ping, .nonce = nonce}, greeting);
    return greeting;
}

std::uint32_t greeting_nonce(std::uint32_t pid) {
    return pid | 0x00800000U;
}

std::string wire_key(std::string_view key) {
    return "/" + std::string(key);
}

std::vector<std::string> wire_keys(std::span<const std::string> keys) {
    std::vector<std::string> texts;
    texts.reserve(keys.size());
    for (const std::string& key : keys) texts.push_back(wire_key(key));
    return texts;
}

}  // namespace cpprun
