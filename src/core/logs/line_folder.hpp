// SPDX-License-Identifier: BSD-3-Clause
// --fold-lines: a line that several ranks write within a short time becomes one, which knows its ranks. Nothing is
// lost: each line of each source is in exactly one line that comes out, and those of one source come out in their
// order. A line waits no longer than the window, and less when all sources have written it or when too much waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace cpprun {

/// One line of several sources, in the order in which they wrote it; at least one.
struct FoldedLine {
    std::string text;
    std::vector<int> sources;
};

class LineFolder {
  public:
    using Time = std::chrono::steady_clock::time_point;

    /// `bytes_max` bounds what waits, its bookkeeping included; one line more may come on top.
    explicit LineFolder(std::chrono::milliseconds window, std::size_t bytes_max = std::size_t{4} << 20U)
        : window_(window), bytes_max_(bytes_max) {}

    /// Sources that may write. A line that all of them have written need not wait. Removing one does not touch its
    /// lines.
    void add_source(int source) { sources_.insert(source); }
    void remove_source(int source);

    /// A line, without its end, that a source added before has written. `now` never goes back.
    void add(int source, std::string_view text, Time now);

    /// When take_due() has something; Time::min(): at once.
    std::optional<Time> due() const;

    /// The lines whose time has come, in order.
    std::vector<FoldedLine> take_due(Time now);

    /// All lines of the source, and those of others that come before them, whether their time has come or not.
    std::vector<FoldedLine> take_up_to(int source);

  private:
    /// Lines that are one. A group is shown before all that its sources have written later: its level is lower than
    /// that of each group behind it in a source's queue, so that there is always an order for all.
    struct Group {
        FoldedLine line;
        std::size_t hash = 0;
        std::uint64_t number = 0;
        std::uint64_t level = 0;
        Time until;
    };
    using Queue = std::deque<Group*>;

    Group* group_to_join(std::size_t hash, std::string_view text, const Queue& own, Time now);
    bool can_join(Group& group, const Queue& own) const;
    bool is_complete(const Group& group) const { return group.line.sources.size() >= sources_.size(); }
    void take_with_all_before(const Group& group, std::vector<FoldedLine>& lines);
    FoldedLine take(const Group& group);

    std::chrono::milliseconds window_;
    std::size_t bytes_max_;
    std::size_t bytes_ = 0;
    std::uint64_t next_number_ = 0;
    std::map<std::uint64_t, Group> groups_;  ///< by number, which is the order in which their time is over
    std::unordered_map<std::size_t, std::deque<Group*>> by_hash_;
    std::unordered_map<int, Queue> queues_;  ///< by source: its lines that wait, in order
    std::unordered_set<int> sources_;
    std::set<std::uint64_t> complete_;  ///< numbers of groups that all sources are in
};

}  // namespace cpprun
