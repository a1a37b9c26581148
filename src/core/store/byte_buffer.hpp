// SPDX-License-Identifier: BSD-3-Clause
// A growing run of bytes that can be written into before they are counted. Unlike a string it does not clear what is
// about to be overwritten, and large ones grow without a copy.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace cpprun {

class ByteBuffer {
  public:
    /// At least `count` writable bytes behind what is there. Valid until the next call. Throws std::bad_alloc.
    char* room(std::size_t count);
    /// `count` bytes of the room have been filled.
    void commit(std::size_t count) { size_ += count; }
    void append(std::string_view bytes);
    /// Forgets the first `count` bytes.
    void drop_front(std::size_t count);

    std::string_view view() const { return {bytes_.get(), size_}; }
    std::size_t size() const { return size_; }
    std::size_t capacity() const { return capacity_; }

  private:
    struct Free {
        void operator()(char* bytes) const { std::free(bytes); }
    };

    std::unique_ptr<char, Free> bytes_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace cpprun
