// SPDX-License-Identifier: BSD-3-Clause
#include "core/store/blob.hpp"

#include <cstring>
#include <new>

namespace cpprun {

Blob::Head* Blob::make(std::size_t capacity, MemoryCount& count) {
    void* memory = ::operator new(sizeof(Head) + capacity);
    count.fetch_add(sizeof(Head) + capacity, std::memory_order_relaxed);
    return new (memory) Head{{1}, 0, capacity, &count};
}

void Blob::release() noexcept {
    if (head_ == nullptr || head_->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    head_->count->fetch_sub(sizeof(Head) + head_->capacity, std::memory_order_relaxed);
    head_->~Head();
    ::operator delete(head_);
}

Blob::Blob(std::string_view bytes, MemoryCount& count) : head_(make(bytes.size(), count)) {
    if (!bytes.empty()) std::memcpy(head_->bytes(), bytes.data(), bytes.size());
    head_->size = bytes.size();
}

Blob::Blob(const Blob& other) noexcept : head_(other.head_) {
    if (head_ != nullptr) head_->owners.fetch_add(1, std::memory_order_relaxed);
}

std::string_view Blob::view() const {
    return head_ == nullptr ? std::string_view() : std::string_view(head_->bytes(), head_->size);
}

void Blob::assign(std::string_view bytes, MemoryCount& count) {
    constexpr std::size_t spare_bytes_max = 64;
    const bool fits =
        head_ != nullptr && head_->capacity >= bytes.size() && head_->capacity - bytes.size() <= spare_bytes_max;
    if (!fits || head_->owners.load(std::memory_order_acquire) != 1) {
        *this = Blob(bytes, count);
        return;
    }
    if (!bytes.empty()) std::memcpy(head_->bytes(), bytes.data(), bytes.size());
    head_->size = bytes.size();
}

void Blob::append(std::string_view bytes, MemoryCount& count) {
    const std::string_view old = view();
    const bool alone = head_ != nullptr && head_->owners.load(std::memory_order_acquire) == 1;
    if (!alone || head_->capacity - head_->size < bytes.size()) {
        Blob grown;
        grown.head_ = make(old.size() + bytes.size() + old.size() / 2, count);
        if (!old.empty()) std::memcpy(grown.head_->bytes(), old.data(), old.size());
        grown.head_->size = old.size();
        std::swap(head_, grown.head_);
    }
    if (!bytes.empty()) std::memcpy(head_->bytes() + head_->size, bytes.data(), bytes.size());
    head_->size += bytes.size();
}

}  // namespace cpprun
