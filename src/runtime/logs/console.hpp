// SPDX-License-Identifier: BSD-3-Clause
// One console of the launcher, to which several streams write whole lines in turn. It is a terminal, a pipe, a socket
// or a file that other processes may share: its descriptor's flags are never changed.
#pragma once

#include "core/logs/line_prefixer.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

class Console {
  public:
    /// `fd` is not owned; it may be closed already, which the first write finds. `name` is for messages.
    Console(int fd, std::string name);

    int fd() const { return fd_; }
    /// Should more be read for it? False while it has bytes_max waiting: the rest stays on disk.
    bool has_room() const { return buffer_.size() - begin_ < bytes_max; }
    bool has_waiting() const { return begin_ < buffer_.size(); }
    /// A write has failed for good; nothing is kept for it any more.
    bool failed() const { return failed_; }

    /// Lets `append(std::string& out)` add what `source` shows. A line that another source has left open is ended
    /// first.
    template <class Append>
    void show(LinePrefixer& source, Append&& append);

    /// Adds bytes as they are, whatever lines they make.
    void pass(std::string_view bytes);

    /// Is the last line without an end?
    bool line_open() const { return line_open_ && !failed_; }

    /// Ends it, so that somebody else may write.
    void end_line();

    /// `source` will not be seen again. Its open line, if any, stays open until another one shows something.
    void forget(const LinePrefixer& source);

    /// Writes what can be written without waiting. Returns what went wrong, the first time only.
    std::optional<std::string> write_waiting();

    /// Bytes shown and bytes written (or given up) since the beginning.
    std::uint64_t shown() const { return written_ + (buffer_.size() - begin_); }
    std::uint64_t written() const { return written_; }

  private:
    static constexpr std::size_t bytes_max = std::size_t{256} << 10U;

    bool ready() const;
    std::size_t next_write_bytes() const;
    void consume(std::size_t bytes);
    std::string fail(int error);

    int fd_;
    std::string name_;
    std::size_t write_bytes_max_;
    std::string buffer_;
    std::string aside_;      ///< kept only to spare allocations
    std::size_t begin_ = 0;  ///< what stands before it in buffer_ has been written
    std::uint64_t written_ = 0;
    bool failed_ = false;
    bool line_open_ = false;
    LinePrefixer* line_owner_ = nullptr;
};

/// Are the two descriptors one terminal, pipe or socket, so that one Console must serve both? (Not for files: two
/// descriptors of one file have two positions.)
bool same_console(int first, int second);

template <class Append>
void Console::show(LinePrefixer& source, Append&& append) {
    if (failed_) return;
    if (!line_open_ || line_owner_ == &source) {
        append(buffer_);
    } else {
        aside_.clear();
        append(aside_);
        if (aside_.empty()) return;
        if (line_owner_ != nullptr) line_owner_->interrupted();
        buffer_.append("\n").append(aside_);
    }
    line_open_ = source.line_open();
    line_owner_ = line_open_ ? &source : nullptr;
}

}  // namespace cpprun
