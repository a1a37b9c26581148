// SPDX-License-Identifier: BSD-3-Clause
#include "core/store/byte_buffer.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace cpprun {

char* ByteBuffer::room(std::size_t count) {
    if (capacity_ - size_ < count) {
        const std::size_t wanted = std::max(size_ + count, size_ + size_ / 2);
        auto* grown = static_cast<char*>(std::realloc(bytes_.get(), wanted));
        if (grown == nullptr) throw std::bad_alloc();
        static_cast<void>(bytes_.release());
        bytes_.reset(grown);
        capacity_ = wanted;
    }
    return bytes_.get() + size_;
}

void ByteBuffer::append(std::string_view bytes) {
    if (bytes.empty()) return;
    std::memcpy(room(bytes.size()), bytes.data(), bytes.size());
    commit(bytes.size());
}

void ByteBuffer::drop_front(std::size_t count) {
    if (count < size_) std::memmove(bytes_.get(), bytes_.get() + count, size_ - count);
    size_ -= count;
}

}  // namespace cpprun
