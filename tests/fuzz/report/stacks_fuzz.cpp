// SPDX-License-Identifier: BSD-3-Clause
// Any text as what workers and debuggers say about stacks.
#include "core/report/worker_stacks.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cpprun;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    static_cast<void>(faulthandler_is_complete(text));
    HangEvidence evidence{std::string(text), {}};
    for (const Stack& stack : {parse_faulthandler(text), parse_py_spy(text), parse_gdb(text), Stack{}}) {
        if (stack.size() > frames_max) abort();
        WorkerSnapshot worker;
        worker.rank = static_cast<int>(evidence.workers.size());
        worker.kernel_stack = text;
        worker.stack = stack;
        evidence.workers.push_back(worker);
    }
    for (const char c : evidence_text(evidence))
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') abort();
    static_cast<void>(evidence_json(evidence).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return 0;
}
