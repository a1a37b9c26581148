// SPDX-License-Identifier: BSD-3-Clause
// Reads and writes states for tests in Python. One line of JSON in gives one line out:
//   {"decode": STORED}                                     -> {"state":, "dialect":, "mixed":, "unknown":} or
//   {"error":}
//   {"encode": STATE, "dialect": NAME, "unknown_of": …}    -> {"stored":}, with the unknown attributes of that value
#include "core/rendezvous/state_codec.hpp"
#include "unit/rendezvous/state_json.hpp"

#include <iostream>
#include <string>

namespace {

using cpprun::test::Json;

Json answer(const Json& question) {
    if (question.contains("decode")) {
        const auto decoded = cpprun::decode_state(question["decode"].get<std::string>());
        if (!decoded) return {{"error", decoded.error().message}};
        Json names = Json::array();
        for (const auto& attribute : decoded.value().unknown) names.push_back(attribute.name);
        const auto& state = decoded.value().state;
        return {{"state", state ? cpprun::test::json_of(*state) : Json(nullptr)},
                {"dialect", cpprun::test::name_of_dialect(decoded.value().dialect)},
                {"certain", decoded.value().dialect_is_certain},
                {"mixed", decoded.value().mixed},
                {"unknown", names}};
    }
    cpprun::UnknownAttributes unknown;
    if (question.contains("unknown_of")) {
        unknown = cpprun::decode_state(question["unknown_of"].get<std::string>()).value().unknown;
    }
    return {{"stored",
             cpprun::encode_state(cpprun::test::state_of(question.at("encode")),
                                  cpprun::test::dialect_of_name(question.at("dialect").get<std::string>()), unknown)}};
}

}  // namespace

int main() {
    for (std::string line; std::getline(std::cin, line);) std::cout << answer(Json::parse(line)).dump() << '\n';
}
