// SPDX-License-Identifier: BSD-3-Clause
// Any bytes, cut anywhere: the decoder gives the same requests as for the bytes in one piece, and what it takes for a
// request encodes to the same bytes again. The first byte of the input chooses generation and cuts.
#include "core/store/wire_codec.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using cpprun::RequestDecoder;
using cpprun::StoreGeneration;

struct Outcome {
    std::vector<std::string> requests;
    bool bad = false;
};

std::string text_of(const cpprun::StoreRequest& request) {
    std::string bytes;
    cpprun::encode_request(request, bytes);
    return bytes;
}

// Decodes with `step` bytes more at each call.
Outcome decode(std::string_view bytes, std::size_t step, StoreGeneration generation) {
    Outcome outcome;
    RequestDecoder decoder({}, generation);
    std::size_t begin = 0;
    for (std::size_t end = 0; end < bytes.size();) {
        end = std::min(bytes.size(), end + step);
        // A copy of its own, so that a read past the end is seen.
        const std::vector<char> seen(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                                     bytes.begin() + static_cast<std::ptrdiff_t>(end));
        std::string_view rest(seen.data(), seen.size());
        for (;;) {
            const auto status = decoder.next(rest);
            if (status == RequestDecoder::Status::incomplete) break;
            if (status == RequestDecoder::Status::bad) {
                outcome.bad = true;
                return outcome;
            }
            const std::size_t consumed = decoder.consumed();
            if (consumed == 0 || consumed > rest.size()) abort();
            outcome.requests.push_back(text_of(decoder.request()));
            if (generation == StoreGeneration::current && outcome.requests.back() != rest.substr(0, consumed)) abort();
            rest.remove_prefix(consumed);
            begin += consumed;
        }
    }
    return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    const auto generation = static_cast<StoreGeneration>(data[0] % 3);
    const std::size_t step = 1 + data[0] / 3U;
    const Outcome whole = decode(bytes, bytes.size() + 1, generation);
    const Outcome cut = decode(bytes, step, generation);
    if (whole.bad != cut.bad || whole.requests != cut.requests) abort();
    return 0;
}
