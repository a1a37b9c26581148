# SPDX-License-Identifier: BSD-3-Clause
# cpprun_warnings: flags for our own code only. cpprun_options: what every target is built with.
add_library(cpprun_warnings INTERFACE)
target_compile_options(cpprun_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -Wno-missing-field-initializers -Werror
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)   # false alarms of GCC 12

# Tests and benchmarks count with int where the library is strict.
add_library(cpprun_test_warnings INTERFACE)
target_compile_options(cpprun_test_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wno-sign-compare -Wno-missing-field-initializers -Wno-dangling-else -Werror
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)

add_library(cpprun_options INTERFACE)
# Asio and fmt are header-only here, so that the binary needs nothing but libc at run time.
target_compile_definitions(cpprun_options INTERFACE
  BOOST_ASIO_NO_DEPRECATED SPDLOG_ACTIVE_LEVEL=1)
if(CPPRUN_SANITIZE)
  target_compile_options(cpprun_options INTERFACE -fsanitize=${CPPRUN_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(cpprun_options INTERFACE -fsanitize=${CPPRUN_SANITIZE})
  if(CPPRUN_SANITIZE MATCHES thread)
    # GCC's thread sanitizer does not understand fences, which Asio can do without.
    target_compile_definitions(cpprun_options INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
    target_compile_options(cpprun_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
  if(CPPRUN_SANITIZE MATCHES undefined)
    # vptr opens descriptors to look at an address, and accuses the innocent where a test leaves it none.
    target_compile_options(cpprun_options INTERFACE -fno-sanitize-recover=undefined -fno-sanitize=vptr)
  endif()
endif()
