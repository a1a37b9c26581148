// SPDX-License-Identifier: BSD-3-Clause
// What agents of several nodes tell each other about failures and workers that hang, as JSON. Read back it is hostile:
// bounded, and safe to show.
#pragma once

#include "core/report/worker_stacks.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

/// The longest record, in bytes.
inline constexpr std::size_t peer_record_bytes_max = 4096;

/// The first worker of a node that failed in a round. All nodes hear of these in one order, that in which they reached
/// the store, so that no clocks need to be compared.
struct JobFailure {
    std::int64_t round = 0;
    int rank = 0;
    std::string status = {};   ///< "exit code 3"
    std::string said = {};     ///< its exception or last line; may be empty
    bool consequence = false;  ///< of a peer's failure, as far as that is known
    std::string host = {};     ///< not in the record: the message says whose it is
    bool own = false;          ///< this node's own; not in the record
};
std::string encode_job_failure(const JobFailure& failed);
std::optional<JobFailure> decode_job_failure(std::string_view text);

/// Which of them came first: the first that is no consequence, or else the first; null: there is none.
const JobFailure* first_of_job(const std::vector<JobFailure>& failures);

/// Of many places those with the most ranks.
std::string encode_places(const std::vector<RanksAt>& places);
std::vector<RanksAt> decode_places(std::string_view text);

/// The end of a worker's stderr.
struct RankWords {
    int rank = 0;
    std::string text;
};
/// The last bytes of each, as many as fit: `bytes_each` at most.
std::string encode_words(const std::vector<RankWords>& words, std::size_t bytes_each);
std::vector<RankWords> decode_words(std::string_view text);
/// The longest text of words, in bytes.
inline constexpr std::size_t words_bytes_max = std::size_t{512} << 10U;

}  // namespace cpprun
