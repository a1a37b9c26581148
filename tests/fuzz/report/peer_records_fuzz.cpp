// SPDX-License-Identifier: BSD-3-Clause
// Any text as what a peer says about failures, places and last words. What is taken is bounded, safe to show, and reads
// the same when it is written again.
#include "core/report/failure_report.hpp"
#include "core/report/peer_records.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using namespace cpprun;

void must_be_safe(std::string_view text) {
    for (const char c : text)
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') abort();
}

void try_failure(std::string_view text) {
    auto failed = decode_job_failure(text);
    if (!failed) return;
    const auto again = decode_job_failure(encode_job_failure(*failed));
    if (!again || again->rank != failed->rank || again->round != failed->round) abort();
    failed->host = "other";
    FailureReportInput input{"train.py", "node", {WorkerFailure{}}};
    input.job_failures = {*failed, *again};
    const FailureStory story = tell_failures(input);
    must_be_safe(failure_report(input, story));
    static_cast<void>(failure_json(input, story));
}

void try_places(std::string_view text) {
    const std::vector<RanksAt> merged = merge_places(decode_places(text));
    std::size_t ranks = 0;
    for (const RanksAt& place : merged) ranks += place.ranks.size();
    if (ranks > 100'000) abort();
    must_be_safe(places_text(merged));
    static_cast<void>(odd_ranks(merged));
    if (encode_places(merged).size() > peer_record_bytes_max) abort();
}

void try_words(std::string_view text) {
    for (const RankWords& one : decode_words(text)) {
        if (one.text.size() > 4096 || one.rank < 0) abort();
        must_be_safe(one.text);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try_failure(text);
    try_places(text);
    try_words(text);
    return 0;
}
