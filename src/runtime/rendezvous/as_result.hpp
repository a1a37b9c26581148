// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cpprun {

/// For co_await: the error as a value, not as an exception.
inline constexpr auto as_result = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace cpprun
