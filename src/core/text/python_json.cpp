// SPDX-License-Identifier: BSD-3-Clause
#include "core/text/python_json.hpp"

namespace cpprun {
namespace {

using Json = nlohmann::ordered_json;

std::string scalar(const Json& value) {
    return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

void write(const Json& value, std::string& out) {
    if (!value.is_structured()) {
        out += scalar(value);
        return;
    }
    out += value.is_object() ? '{' : '[';
    bool first = true;
    for (auto item = value.begin(); item != value.end(); ++item) {
        if (!first) out += ", ";
        first = false;
        if (value.is_object()) out += scalar(Json(item.key())) + ": ";
        write(*item, out);
    }
    out += value.is_object() ? '}' : ']';
}

}  // namespace

std::string python_json(const Json& value) {
    std::string out;
    write(value, out);
    return out;
}

}  // namespace cpprun
