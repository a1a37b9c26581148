// SPDX-License-Identifier: BSD-3-Clause
// Descriptors 0, 1 and 2 as every later line of the program takes them for granted.
#pragma once

namespace cpprun {

/// Opens /dev/null on each of 0, 1 and 2 that the caller has closed, so that no file or socket of ours lands there.
void open_missing_standard_streams();

}  // namespace cpprun
