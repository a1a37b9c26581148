// SPDX-License-Identifier: BSD-3-Clause
// The one vocabulary for failures that are expected: what the user wrote wrong, or what the machine refused.
// A worker's failure is none of these: it is a RunResult. A bug of ours is an assertion or an exception.
#pragma once

#include <boost/outcome/basic_result.hpp>
#include <boost/outcome/policy/all_narrow.hpp>
#include <boost/outcome/try.hpp>

#include <string>
#include <system_error>

namespace cpprun {

/// Why something could not be done. launch/exit_code.hpp turns each kind into the process's exit code.
enum class ErrorKind {
    usage,           ///< a wrong option, variable or script, found before the launch: exit 2
    not_executable,  ///< the program is there and may not be executed: exit 126
    not_found,       ///< the program or the interpreter is not there: exit 127
    failed,          ///< the world failed: a port, a file, a limit, a peer: exit 1
};

/// One failure. `message` is a fragment that fits after "error: ", names the thing and the value as given, and has
/// no line break at its end. `hint` says what to do next, or is empty.
struct Error {
    ErrorKind kind = ErrorKind::failed;
    std::string message;
    std::string hint = {};
};

/// A value or an Error. BOOST_OUTCOME_TRY passes an Error on to the caller.
template <class T>
using Result = boost::outcome_v2::basic_result<T, Error, boost::outcome_v2::policy::all_narrow>;

inline Error usage_error(std::string message, std::string hint = {}) {
    return Error{ErrorKind::usage, std::move(message), std::move(hint)};
}

inline Error failure(std::string message, std::string hint = {}) {
    return Error{ErrorKind::failed, std::move(message), std::move(hint)};
}

/// What the system says of an errno: "No such file or directory".
inline std::string error_text(int error) {
    return std::generic_category().message(error);
}

}  // namespace cpprun
