// SPDX-License-Identifier: BSD-3-Clause
// Bytes of a stream, as they come, into lines. A line ends at \n, \r or \r\n, as torchrun's copier reads them
// (contract 5.3), so that each state of a progress bar is a line of its own. No other byte means anything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace cpprun {

/// How many bytes at the end of `text` begin a UTF-8 character that is not complete; 0..3.
std::size_t incomplete_utf8_bytes(std::string_view text);

/// What stands behind a piece of text.
enum class LineEnd : std::uint8_t {
    none,             ///< nothing yet: a piece of a line
    newline,          ///< \n or \r\n
    carriage_return,  ///< \r alone, as far as has been read
    late_newline,     ///< the \n after a \r that has been told as a carriage_return; the text is empty
};

class LineSplitter {
  public:
    /// A line longer than this is handed on in pieces, so that memory stays bounded.
    static constexpr std::size_t line_bytes_max = std::size_t{1} << 20U;

    /// Calls take(text, end) for each line that `bytes` complete (text without its end), and for what no longer fits a
    /// line (LineEnd::none). The rest is held. `text` is valid during the call only.
    template <class Take>
    void feed(std::string_view bytes, Take&& take);

    /// Hands on what is held of a line that has not ended, but for the beginning of a UTF-8 character, as
    /// take(text, LineEnd::none). Nothing is called when nothing is held.
    template <class Take>
    void flush(Take&& take);

    /// As flush(), and an incomplete character too: no more bytes will come.
    template <class Take>
    void finish(Take&& take);

    /// Does flush() have something to hand on?
    bool has_partial() const { return held_.size() > incomplete_utf8_bytes(held_); }

  private:
    template <class Take>
    void take_line(std::string_view text, LineEnd end, Take& take);
    template <class Take>
    void hold(std::string_view rest, Take& take);

    std::string held_;
    bool after_carriage_return_ = false;  ///< a \n at the very beginning of the next bytes belongs to the last \r
};

namespace detail {

/// Walks over the line ends of one chunk. Carriage returns are rare: the next one is looked for once, not per line.
class LineEnds {
  public:
    explicit LineEnds(std::string_view bytes) : bytes_(bytes), carriage_return_(find('\r', 0)) {}

    /// Position of the first line end at or after `begin`, or npos.
    std::size_t next(std::size_t begin) {
        if (carriage_return_ < begin) carriage_return_ = find('\r', begin);
        return std::min(find('\n', begin), carriage_return_);
    }

  private:
    std::size_t find(char c, std::size_t begin) const {
        if (begin >= bytes_.size()) return std::string_view::npos;
        const void* at = std::memchr(bytes_.data() + begin, c, bytes_.size() - begin);
        if (at == nullptr) return std::string_view::npos;
        return static_cast<std::size_t>(static_cast<const char*>(at) - bytes_.data());
    }

    std::string_view bytes_;
    std::size_t carriage_return_;
};

}  // namespace detail

template <class Take>
void LineSplitter::take_line(std::string_view text, LineEnd end, Take& take) {
    if (held_.empty()) {
        take(text, end);
        return;
    }
    held_.append(text);
    take(std::string_view(held_), end);
    held_.clear();
}

template <class Take>
void LineSplitter::hold(std::string_view rest, Take& take) {
    held_.append(rest);
    if (held_.size() >= line_bytes_max) flush(take);
}

template <class Take>
void LineSplitter::feed(std::string_view bytes, Take&& take) {
    if (bytes.empty()) return;
    std::size_t begin = after_carriage_return_ && bytes.front() == '\n' ? 1 : 0;
    after_carriage_return_ = false;
    if (begin == 1) take(std::string_view(), LineEnd::late_newline);
    detail::LineEnds ends(bytes);
    for (std::size_t end = ends.next(begin); end != std::string_view::npos; end = ends.next(begin)) {
        const std::string_view line = bytes.substr(begin, end - begin);
        begin = end + 1;
        if (bytes[end] == '\n') {
            take_line(line, LineEnd::newline, take);
        } else if (begin < bytes.size() && bytes[begin] == '\n') {
            ++begin;
            take_line(line, LineEnd::newline, take);
        } else {
            after_carriage_return_ = begin == bytes.size();
            take_line(line, LineEnd::carriage_return, take);
        }
    }
    if (begin < bytes.size()) hold(bytes.substr(begin), take);
}

template <class Take>
void LineSplitter::flush(Take&& take) {
    const std::size_t whole = held_.size() - incomplete_utf8_bytes(held_);
    if (whole == 0) return;
    take(std::string_view(held_).substr(0, whole), LineEnd::none);
    held_.erase(0, whole);
    if (held_.capacity() > line_bytes_max / 4) held_.shrink_to_fit();
}

template <class Take>
void LineSplitter::finish(Take&& take) {
    if (!held_.empty()) take(std::string_view(held_), LineEnd::none);
    held_.clear();
}

}  // namespace cpprun
