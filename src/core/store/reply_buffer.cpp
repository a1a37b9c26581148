// SPDX-License-Identifier: BSD-3-Clause
#include "core/store/reply_buffer.hpp"

#include "core/store/wire_codec.hpp"

namespace cpprun {
namespace {

// Below this a copy costs less than another piece of a scattered write.
constexpr std::size_t shared_from = 2048;
constexpr std::size_t kept_capacity = std::size_t{256} << 10U;

}  // namespace

void ReplyBuffer::add_u64(std::uint64_t number) {
    append_u64(bytes_, number);
}

void ReplyBuffer::add_u32(std::uint32_t number) {
    append_u32(bytes_, number);
}

void ReplyBuffer::add_value(const Blob& value) {
    const std::string_view view = value.view();
    add_u64(view.size());
    if (view.size() < shared_from) return add(view);
    shared_.push_back({bytes_.size(), value});
    shared_bytes_ += view.size();
}

void ReplyBuffer::clear() {
    bytes_.clear();
    shared_.clear();
    shared_bytes_ = 0;
    if (bytes_.capacity() > kept_capacity) bytes_.shrink_to_fit();
    if (shared_.capacity() * sizeof(Shared) > kept_capacity) shared_.shrink_to_fit();
}

}  // namespace cpprun
