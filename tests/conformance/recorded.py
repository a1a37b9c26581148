# SPDX-License-Identifier: BSD-3-Clause
"""What torchrun showed, kept in recorded/<torch version>.json. CPPRUN_RECORDED=use reads it where no torchrun can run;
CPPRUN_RECORDED=write runs torchrun and keeps the result. By default torchrun runs, and nothing is read or kept."""
import fcntl
import json
import os
import pathlib
import subprocess

from harness import launchers

FOLDER = pathlib.Path(__file__).parent / "recorded"


def mode():
    chosen = os.environ.get("CPPRUN_RECORDED", "")
    if chosen not in ("", "use", "write"):
        raise ValueError(f"CPPRUN_RECORDED={chosen}: not `use` or `write`")
    return chosen


def version():
    """Of the torch that is compared with: CPPRUN_RECORDED_VERSION, else the one beside torchrun."""
    given = os.environ.get("CPPRUN_RECORDED_VERSION")
    if given or mode() == "use":
        return given or "2.13.0"
    python = launchers.torchrun_script().parent / "python3"
    line = "import importlib.metadata as m; print(m.version('torch').split('+')[0])"
    return subprocess.run([python, "-c", line], check=True, capture_output=True, text=True).stdout.strip()


def read(name):
    path = FOLDER / f"{version()}.json"
    known = json.loads(path.read_text())
    if name not in known:
        raise KeyError(f"{path.name} has no scenario '{name}': record it with CPPRUN_RECORDED=write")
    return known[name]


def write(name, observation):
    path = FOLDER / f"{version()}.json"
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = json.loads(path.read_text()) if path.exists() else {}
        known[name] = observation
        path.write_text(json.dumps(known, indent=1, sort_keys=True, ensure_ascii=True) + "\n")
