// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/peer_records.hpp"

#include "core/report/failure_report.hpp"
#include "core/text/json_fields.hpp"
#include "core/text/terminal_safe.hpp"
#include "core/text/whole_number.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace cpprun {
namespace {

using PeerJson = nlohmann::json;

constexpr std::size_t status_bytes_max = 64;
constexpr std::size_t said_bytes_max = 240;
constexpr std::size_t place_bytes_max = 200;
constexpr std::size_t peer_places_max = 256;
constexpr std::size_t peer_ranks_max = 100'000;
constexpr std::size_t ranks_with_words_max = 4096;
constexpr std::size_t words_of_rank_max = 4096;

std::string one_line(std::string text) {
    text.erase(std::find(text.begin(), text.end(), '\n'), text.end());
    return text;
}

std::string short_field(const PeerJson& object, const char* name, std::size_t bytes_max) {
    return one_line(terminal_safe(text_field(object, name).value_or("").substr(0, bytes_max)));
}

int rank_field(const PeerJson& object) {
    const auto rank = integer_field(object, "rank").value_or(-1);
    return rank < 0 || rank > std::numeric_limits<int>::max() ? -1 : static_cast<int>(rank);
}

std::string dumped(const PeerJson& value) {
    return value.dump(-1, ' ', true, PeerJson::error_handler_t::replace);
}

/// "0-3, 7"; what makes no sense is passed over.
std::vector<int> parse_ranges(std::string_view text, std::size_t ranks_left) {
    std::vector<int> ranks;
    while (!text.empty() && ranks.size() < ranks_left) {
        const std::size_t comma = std::min(text.find(','), text.size());
        std::string_view part = text.substr(0, comma);
        text.remove_prefix(std::min(comma + 1, text.size()));
        part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
        const std::size_t dash = part.find('-');
        const auto first = whole_number<int>(part.substr(0, dash));
        const auto last = dash == std::string_view::npos ? first : whole_number<int>(part.substr(dash + 1));
        if (!first || !last || *first < 0 || *last < *first) continue;
        for (std::int64_t rank = *first; rank <= *last && ranks.size() < ranks_left; ++rank)
            ranks.push_back(static_cast<int>(rank));
    }
    return ranks;
}

}  // namespace

std::string encode_job_failure(const JobFailure& failed) {
    return dumped({{"round", failed.round},
                   {"rank", failed.rank},
                   {"status", failed.status.substr(0, status_bytes_max)},
                   {"said", failed.said.substr(0, said_bytes_max)},
                   {"consequence", failed.consequence}});
}

std::optional<JobFailure> decode_job_failure(std::string_view text) {
    const PeerJson record = parse_foreign_json<PeerJson>(text, peer_record_bytes_max);
    const auto round = integer_field(record, "round");
    JobFailure failed;
    failed.rank = rank_field(record);
    if (!round || *round < 0 || failed.rank < 0) return std::nullopt;
    failed.round = *round;
    failed.status = short_field(record, "status", status_bytes_max);
    failed.said = short_field(record, "said", said_bytes_max);
    const auto consequence = record.find("consequence");
    failed.consequence = consequence != record.end() && consequence->is_boolean() && consequence->get<bool>();
    return failed;
}

const JobFailure* first_of_job(const std::vector<JobFailure>& failures) {
    const auto cause =
        std::find_if(failures.begin(), failures.end(), [](const JobFailure& one) { return !one.consequence; });
    if (cause != failures.end()) return &*cause;
    return failures.empty() ? nullptr : &failures.front();
}

std::string encode_places(const std::vector<RanksAt>& places) {
    PeerJson list = PeerJson::array();
    std::string text = "[]";
    for (const RanksAt& place : places) {
        list.push_back({{"where", place.where.substr(0, place_bytes_max)}, {"ranks", rank_ranges(place.ranks)}});
        std::string longer = dumped(list);
        if (longer.size() > peer_record_bytes_max) break;
        text = std::move(longer);
    }
    return text;
}

std::vector<RanksAt> decode_places(std::string_view text) {
    const PeerJson list = parse_foreign_json<PeerJson>(text, peer_record_bytes_max);
    std::vector<RanksAt> places;
    if (!list.is_array()) return places;
    std::size_t left = peer_ranks_max;
    for (const PeerJson& entry : list) {
        if (places.size() == peer_places_max) break;
        RanksAt place{short_field(entry, "where", place_bytes_max),
                      parse_ranges(text_field(entry, "ranks").value_or(""), left)};
        left -= place.ranks.size();
        if (!place.where.empty() && !place.ranks.empty()) places.push_back(std::move(place));
    }
    return places;
}

std::string encode_words(const std::vector<RankWords>& words, std::size_t bytes_each) {
    PeerJson list = PeerJson::array();
    for (const RankWords& one : words) {
        const std::size_t bytes = std::min(one.text.size(), bytes_each);
        list.push_back({{"rank", one.rank}, {"text", one.text.substr(one.text.size() - bytes)}});
    }
    return list.dump(-1, ' ', false, PeerJson::error_handler_t::replace);
}

std::vector<RankWords> decode_words(std::string_view text) {
    const PeerJson list = parse_foreign_json<PeerJson>(text, words_bytes_max);
    std::vector<RankWords> words;
    if (!list.is_array()) return words;
    for (const PeerJson& entry : list) {
        if (words.size() == ranks_with_words_max) break;
        RankWords one{rank_field(entry), text_field(entry, "text").value_or("")};
        if (one.text.size() > words_of_rank_max) one.text.erase(0, one.text.size() - words_of_rank_max);
        one.text = terminal_safe(one.text);
        if (one.rank >= 0 && !one.text.empty()) words.push_back(std::move(one));
    }
    return words;
}

}  // namespace cpprun
