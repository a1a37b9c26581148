// SPDX-License-Identifier: BSD-3-Clause
// Bytes that several owners share: the store, and replies that wait for a slow reader. What they take is counted where
// their maker says, for as long as anybody holds them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace cpprun {

/// Counts the bytes of memory in use. Each blob gives back what it took. May be used from several threads.
using MemoryCount = std::atomic<std::size_t>;

/// Reference-counted bytes; a null blob has none. Copies are cheap and share the bytes.
class Blob {
  public:
    Blob() = default;
    /// A copy of `bytes`, counted in `count`, which must outlive the blob and its copies.
    Blob(std::string_view bytes, MemoryCount& count);
    Blob(const Blob& other) noexcept;
    Blob(Blob&& other) noexcept : head_(std::exchange(other.head_, nullptr)) {}
    Blob& operator=(Blob other) noexcept {
        std::swap(head_, other.head_);
        return *this;
    }
    ~Blob() { release(); }

    std::string_view view() const;
    /// Becomes a copy of `bytes`; as a new blob for everybody who shares the old one.
    void assign(std::string_view bytes, MemoryCount& count);
    /// Adds bytes at the end, for this owner only. Amortised over many calls as long as nobody shares the bytes.
    void append(std::string_view bytes, MemoryCount& count);

  private:
    struct Head {
        std::atomic<std::uint32_t> owners;
        std::size_t size;
        std::size_t capacity;
        MemoryCount* count;
        char* bytes() { return reinterpret_cast<char*>(this + 1); }
    };

    static Head* make(std::size_t capacity, MemoryCount& count);
    void release() noexcept;

    Head* head_ = nullptr;
};

}  // namespace cpprun
