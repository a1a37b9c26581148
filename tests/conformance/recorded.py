# SPDX-License-Identifier: BSD-3-Clause
"""What torchrun showed, kept in recorded/<torch version>.json, so that not each launch must be made again.

CPPRUN_RECORDED says how the record is used:
  mixed   (default) one scenario in three, chosen by its name, runs the real torchrun; the others use the record, where
          there is one for this version of torch
  never   every scenario runs the real torchrun
  use     none does: for machines without torch
  write   every scenario runs the real torchrun, and the record is written anew"""
import fcntl
import functools
import json
import os
import pathlib
import subprocess
import zlib

from harness import launchers

FOLDER = pathlib.Path(__file__).parent / "recorded"
MODES = ("mixed", "never", "use", "write")


def mode():
    chosen = os.environ.get("CPPRUN_RECORDED") or "mixed"
    if chosen not in MODES:
        raise ValueError(f"CPPRUN_RECORDED={chosen}: not one of {', '.join(MODES)}")
    return chosen


def use_record(name):
    """Whether this scenario's torchrun side comes from the record."""
    if mode() == "mixed":
        return zlib.crc32(name.encode()) % 3 != 0 and name in _known()
    return mode() == "use"


@functools.cache
def version():
    """Of the torch that is compared with: CPPRUN_RECORDED_VERSION, else the one beside torchrun."""
    given = os.environ.get("CPPRUN_RECORDED_VERSION")
    if given or mode() == "use":
        return given or "2.13.0"
    python = launchers.torchrun_script().parent / "python3"
    line = "import importlib.metadata as m; print(m.version('torch').split('+')[0])"
    return subprocess.run([python, "-c", line], check=True, capture_output=True, text=True).stdout.strip()


def _path():
    return FOLDER / f"{version()}.json"


def _known():
    return json.loads(_path().read_text()) if _path().exists() else {}


def read(name):
    known = _known()
    if name not in known:
        raise KeyError(f"{_path().name} has no scenario '{name}': record it with CPPRUN_RECORDED=write")
    return known[name]


def write(name, observation):
    with open(_path().with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = _known() | {name: observation}
        # One scenario a line, so that a new record is a diff that can be read.
        lines = [f"{json.dumps(key)}: {json.dumps(known[key], sort_keys=True)}" for key in sorted(known)]
        _path().write_text("{\n" + ",\n".join(lines) + "\n}\n")
