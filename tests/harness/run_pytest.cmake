# SPDX-License-Identifier: BSD-3-Clause
# cmake -DPYTHON=… -DSUITE=… -DWORKERS=N -P run_pytest.cmake: runs a Python suite, or says what is missing.
if(NOT EXISTS "${PYTHON}")
  message(FATAL_ERROR "${PYTHON} is not there. These tests need a Python with PyTorch and tests/requirements.txt: "
                      "scripts/test installs one, or name yours by -DCPPRUN_PYTHON=… when configuring.")
endif()
execute_process(COMMAND "${PYTHON}" -c "import pytest, xdist, torch" RESULT_VARIABLE incomplete ERROR_VARIABLE why)
if(incomplete)
  message(FATAL_ERROR "${PYTHON} lacks a package that these tests need: ${why}Install PyTorch and "
                      "`pip install -r tests/requirements.txt`.")
endif()
set(ENV{CPPRUN_PYTHON} "${PYTHON}")
set(ENV{CPPRUN_BINARY} "${BINARY}")
get_filename_component(tests "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
execute_process(COMMAND "${PYTHON}" -m pytest -c "${tests}/pytest.ini" -n "${WORKERS}" -q "${SUITE}" RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "pytest ended with ${failed}")
endif()
