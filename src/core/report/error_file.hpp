// SPDX-License-Identifier: BSD-3-Clause
// error.json: what a worker that failed leaves for its launcher, and the launcher for its own parent (contract 6.1,
// 6.2, 6.5). Bytes come from workers and are hostile; reading the file safely is runtime/os/bounded_file.hpp's part.
#pragma once

#include "core/error.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

/// The longest error file that is read, in bytes.
inline constexpr std::size_t error_file_bytes_max = std::size_t{1024} * 1024;

/// A worker's record of its own failure.
struct ErrorRecord {
    nlohmann::ordered_json json;            ///< the whole file, all keys kept
    bool dictionary_form = false;           ///< {"message": {"message", "extraInfo"}}; else {"message": "text"}
    std::string message;                    ///< the exception's text
    std::string traceback;                  ///< what the failure table shows; may have many lines; may be empty
    std::optional<std::int64_t> timestamp;  ///< epoch seconds; none: the file does not say
};

/// Reads both accepted forms. Fails (kind `failed`) on text that is no JSON, is too long, or has no usable "message";
/// the message of the failure says which.
Result<ErrorRecord> parse_error_file(std::string_view text);

/// The copy that goes to the launcher's own TORCHELASTIC_ERROR_FILE: in the dictionary form with the worker's
/// `exit_code` (negative for signals) as message.errorCode, in the text form unchanged (contract 6.5).
std::string error_file_for_parent(const ErrorRecord& record, int exit_code);

/// An error file about the launcher itself (contract 6.1): `message` as "Name: text", `timestamp` in epoch seconds.
std::string error_file_of_launcher(const std::string& message, std::int64_t timestamp);

}  // namespace cpprun
