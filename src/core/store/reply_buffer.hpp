// SPDX-License-Identifier: BSD-3-Clause
// Replies of one connection in the order in which they are to be sent. Small ones are copied, large values shared.
#pragma once

#include "core/store/blob.hpp"

#include <string>
#include <vector>

namespace cpprun {

class ReplyBuffer {
  public:
    /// A large value that stands in front of byte `offset` of bytes().
    struct Shared {
        std::size_t offset;
        Blob blob;
    };

    void add(char byte) { bytes_.push_back(byte); }
    void add(std::string_view bytes) { bytes_.append(bytes); }
    void add_u64(std::uint64_t number);
    void add_u32(std::uint32_t number);
    /// A length and the bytes.
    void add_value(const Blob& value);

    bool empty() const { return bytes_.empty() && shared_.empty(); }
    /// Bytes to send.
    std::size_t size() const { return bytes_.size() + shared_bytes_; }
    /// Bytes held by this buffer alone, without what it shares.
    std::size_t own_size() const { return bytes_.size() + shared_.size() * sizeof(Shared); }
    void clear();

    const std::string& bytes() const { return bytes_; }
    const std::vector<Shared>& shared() const { return shared_; }

  private:
    std::string bytes_;
    std::vector<Shared> shared_;
    std::size_t shared_bytes_ = 0;
};

}  // namespace cpprun
