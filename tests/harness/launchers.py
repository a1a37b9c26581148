# SPDX-License-Identifier: BSD-3-Clause
"""Where the two launchers are. A variable names another one; a missing one is an error, never a silent skip."""
import os
import pathlib
import shutil

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


class MissingLauncher(RuntimeError):
    """A launcher or interpreter that a suite needs is not there."""


def _executable(path, variable, what):
    found = shutil.which(str(path))
    if found is None:
        raise MissingLauncher(f"{what} not found at {path}: build or install it, or name another one by {variable}")
    return pathlib.Path(found).absolute()


def cpprun_binary():
    """The built cpprun: CPPRUN_BINARY, else the dev preset's."""
    given = os.environ.get("CPPRUN_BINARY") or REPOSITORY / "build/dev/src/cpprun"
    return _executable(given, "CPPRUN_BINARY", "cpprun")


def torchrun_script():
    """The real torchrun: CPPRUN_TORCHRUN, else the virtual environment's."""
    given = os.environ.get("CPPRUN_TORCHRUN") or REPOSITORY / ".venv/bin/torchrun"
    return _executable(given, "CPPRUN_TORCHRUN", "torchrun").resolve()


def python_with_torch():
    """The interpreter that imports torch: CPPRUN_PYTHON, else the virtual environment's. A link stays a link, as
    that is what makes it the environment's."""
    given = os.environ.get("CPPRUN_PYTHON") or REPOSITORY / ".venv/bin/python3"
    return _executable(given, "CPPRUN_PYTHON", "python")


def minimal_environment(home, tmp, path_first=()):
    """PATH, HOME, LANG and TMPDIR only: nothing of the caller's surroundings reaches a test."""
    path = [*map(str, path_first), str(python_with_torch().parent), "/usr/local/bin", "/usr/bin", "/bin"]
    return {"PATH": ":".join(path), "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": str(tmp)}
