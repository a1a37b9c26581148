// SPDX-License-Identifier: BSD-3-Clause
// Why an operation on somebody's store did not succeed.
#pragma once

#include <boost/outcome/basic_result.hpp>
#include <boost/outcome/policy/all_narrow.hpp>
#include <boost/outcome/try.hpp>

#include <string>

namespace cpprun {

struct StoreFailure {
    enum class Kind {
        timeout,      ///< what was waited for did not come in time; the connection stays usable after a wait
        connection,   ///< no connection, or it was lost: this client is of no more use
        protocol,     ///< the peer does not speak as a store does: likewise
        queue_empty,  ///< a pop found nothing
        invalid,      ///< a key, value or list over the protocol's limits: nothing was sent
    };
    Kind kind = Kind::connection;
    std::string message;  ///< a fragment that fits after "error: ", with peer and key
};

template <class T>
using StoreResult = boost::outcome_v2::basic_result<T, StoreFailure, boost::outcome_v2::policy::all_narrow>;

}  // namespace cpprun
