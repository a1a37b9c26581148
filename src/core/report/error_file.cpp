// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/error_file.hpp"

#include "core/text/json_fields.hpp"
#include "core/text/python_json.hpp"
#include "core/text/whole_number.hpp"

namespace cpprun {
namespace {

using Json = nlohmann::ordered_json;

std::optional<std::int64_t> timestamp_of(const Json& holder) {
    const auto found = holder.find("timestamp");
    if (found == holder.end()) return std::nullopt;
    if (found->is_number_integer()) return found->get<std::int64_t>();
    if (found->is_number_float()) {
        const double seconds = found->get<double>();
        if (seconds > -9e15 && seconds < 9e15) return static_cast<std::int64_t>(seconds);
        return std::nullopt;
    }
    if (!found->is_string()) return std::nullopt;
    return whole_number(found->get_ref<const std::string&>());
}

void read_dictionary(const Json& message, ErrorRecord& record) {
    record.dictionary_form = true;
    record.message = text_field(message, "message").value_or("");
    record.traceback = record.message;
    const auto extra = message.find("extraInfo");
    if (extra != message.end() && extra->is_object()) {
        const std::string callstack = text_field(*extra, "py_callstack").value_or("");
        if (!callstack.empty()) record.traceback = callstack;
        record.timestamp = timestamp_of(*extra);
    }
    if (record.traceback.empty()) record.traceback = "<N/A>";
}

}  // namespace

Result<ErrorRecord> parse_error_file(std::string_view text) {
    if (text.size() > error_file_bytes_max) return failure("longer than 1 MiB");
    if (is_nested_too_deeply(text)) return failure("nested too deeply");
    ErrorRecord record;
    record.json = Json::parse(text.begin(), text.end(), nullptr, false);
    if (record.json.is_discarded()) return failure("not JSON");
    if (!record.json.is_object()) return failure("not a JSON object");
    const auto message = record.json.find("message");
    if (message == record.json.end()) return failure("no \"message\" in it");
    if (message->is_object()) {
        read_dictionary(*message, record);
    } else if (message->is_string()) {
        record.message = message->get<std::string>();
        record.traceback = record.message;
        // torchrun dates a text-form record without a time to the epoch, so that it is always the root cause.
        record.timestamp = timestamp_of(record.json).value_or(0);
    } else {
        return failure("\"message\" is neither text nor an object");
    }
    return record;
}

std::string error_file_for_parent(const ErrorRecord& record, int exit_code) {
    Json copy = record.json;
    if (record.dictionary_form) copy["message"]["errorCode"] = exit_code;
    return python_json(copy);
}

std::string error_file_of_launcher(const std::string& message, std::int64_t timestamp) {
    return python_json(Json{{"message",
                             {{"message", message},
                              {"extraInfo", {{"py_callstack", message}, {"timestamp", std::to_string(timestamp)}}}}}});
}

}  // namespace cpprun
