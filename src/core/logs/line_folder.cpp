// SPDX-License-Identifier: BSD-3-Clause
#include "core/logs/line_folder.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

namespace cpprun {
namespace {

/// What a line that waits costs beside its text, about.
constexpr std::size_t group_bytes = 320;
constexpr std::size_t source_bytes = 2 * sizeof(void*);

}  // namespace

void LineFolder::remove_source(int source) {
    sources_.erase(source);
    for (const auto& [number, group] : groups_) {
        if (is_complete(group)) complete_.insert(number);
    }
}

/// Groups of level 0 are never made: an empty queue joins any.
bool LineFolder::can_join(Group& group, const Queue& own) const {
    const std::uint64_t last = own.empty() ? 0 : own.back()->level;
    if (group.level > last) return true;
    // Where nothing waits behind a group, it may move to a place behind the source's last line.
    const bool is_last = std::all_of(group.line.sources.begin(), group.line.sources.end(), [&](int source) {
        const Queue& queue = queues_.at(source);
        return &queue != &own && queue.back() == &group;
    });
    if (is_last) group.level = last + 1;
    return is_last;
}

LineFolder::Group* LineFolder::group_to_join(std::size_t hash, std::string_view text, const Queue& own, Time now) {
    const auto found = by_hash_.find(hash);
    if (found == by_hash_.end()) return nullptr;
    // A source that repeats itself makes many groups of one text, whose levels rise: the first behind its last line.
    std::deque<Group*>& candidates = found->second;
    const std::uint64_t last = own.empty() ? 0 : own.back()->level;
    auto candidate = std::partition_point(candidates.begin(), candidates.end(),
                                          [last](const Group* group) { return group->level <= last; });
    if (candidate == candidates.end()) --candidate;
    Group& group = **candidate;
    const bool joins = now < group.until && group.line.text == text && can_join(group, own);
    return joins ? &group : nullptr;
}

void LineFolder::add(int source, std::string_view text, Time now) {
    const std::size_t hash = std::hash<std::string_view>{}(text);
    Queue& own = queues_[source];
    Group* group = group_to_join(hash, text, own, now);
    if (group == nullptr) {
        group = &groups_[next_number_];
        group->line.text = text;
        group->hash = hash;
        group->number = next_number_++;
        group->level = own.empty() ? 1 : own.back()->level + 1;
        group->until = now + window_;
        by_hash_[hash].push_back(group);
        bytes_ += text.size() + group_bytes;
    }
    group->line.sources.push_back(source);
    bytes_ += source_bytes;
    own.push_back(group);
    if (is_complete(*group)) complete_.insert(group->number);
}

std::optional<LineFolder::Time> LineFolder::due() const {
    if (groups_.empty()) return std::nullopt;
    if (!complete_.empty() || bytes_ > bytes_max_) return Time::min();
    return groups_.begin()->second.until;
}

FoldedLine LineFolder::take(const Group& group) {
    FoldedLine line = group.line;
    for (const int source : line.sources) {
        const auto queue = queues_.find(source);
        queue->second.pop_front();
        if (queue->second.empty()) queues_.erase(queue);
    }
    const auto same = by_hash_.find(group.hash);
    same->second.erase(std::find(same->second.begin(), same->second.end(), &group));
    if (same->second.empty()) by_hash_.erase(same);
    bytes_ -= line.text.size() + group_bytes + line.sources.size() * source_bytes;
    complete_.erase(group.number);
    groups_.erase(group.number);
    return line;
}

void LineFolder::take_with_all_before(const Group& group, std::vector<FoldedLine>& lines) {
    std::vector<const Group*> taken{&group};
    std::unordered_set<const Group*> seen{&group};
    for (std::size_t at = 0; at < taken.size(); ++at) {
        const Group* one = taken[at];
        for (const int source : one->line.sources) {
            for (const Group* before : queues_.at(source)) {
                if (before == one) break;
                if (seen.insert(before).second) taken.push_back(before);
            }
        }
    }
    std::sort(taken.begin(), taken.end(), [](const Group* a, const Group* b) {
        return std::tie(a->level, a->number) < std::tie(b->level, b->number);
    });
    for (const Group* one : taken) lines.push_back(take(*one));
}

std::vector<FoldedLine> LineFolder::take_due(Time now) {
    std::vector<FoldedLine> lines;
    // In the order in which they began, as that is how people read them.
    while (!complete_.empty()) take_with_all_before(groups_.at(*complete_.begin()), lines);
    while (!groups_.empty() && (bytes_ > bytes_max_ || now >= groups_.begin()->second.until))
        take_with_all_before(groups_.begin()->second, lines);
    return lines;
}

std::vector<FoldedLine> LineFolder::take_up_to(int source) {
    std::vector<FoldedLine> lines;
    const auto queue = queues_.find(source);
    if (queue != queues_.end()) take_with_all_before(*queue->second.back(), lines);
    return lines;
}

}  // namespace cpprun
