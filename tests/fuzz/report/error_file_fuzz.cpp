// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a worker's error file, and all that is made of it: torchrun's table, our report, failure.json, the copy
// for the launcher's parent. Nothing of it may reach a terminal as a control sequence.
#include "core/report/error_file.hpp"
#include "core/report/failure_report.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using namespace cpprun;

void must_be_safe(std::string_view text) {
    for (const char c : text)
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    WorkerFailure failure;
    failure.status = ExitStatus::exited(1);
    failure.evidence.last_words = text;
    failure.evidence.last_words_known = true;
    FailureReportInput input{"train.py", "node", {failure, failure}};
    input.failures[1].global_rank = 1;
    if (auto record = parse_error_file(text)) {
        input.failures[0].record = std::move(record.value());
        const std::string copy = error_file_for_parent(*input.failures[0].record, 1);
        if (!parse_error_file(copy)) abort();
    }
    const FailureStory story = tell_failures(input);
    const std::string report = failure_report(input, story);
    must_be_safe(report);
    std::size_t lines = 1;
    for (const char c : report) lines += c == '\n' ? 1U : 0U;
    if (lines > 25) abort();
    must_be_safe(failure_table("train.py", input.failures, {"now", "then"}, "node"));
    static_cast<void>(failure_json(input, story));
    return 0;
}
