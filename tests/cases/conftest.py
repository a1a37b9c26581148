# SPDX-License-Identifier: BSD-3-Clause
"""What every case has: a fresh place, the built binary, and launches that cannot hang."""
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
from harness import launchers, processes

sys.path.insert(0, str(pathlib.Path(__file__).parent))
PROBE = launchers.REPOSITORY / "tests/conformance/workers/probe.py"


class Result:
    """A finished launch."""

    def __init__(self, code, stdout, stderr, seconds):
        self.code, self.stdout, self.stderr, self.seconds = code, stdout, stderr, seconds

    @property
    def lines(self):
        """The workers' lines, in no order that a test may rely on."""
        return sorted(self.stdout.splitlines())

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.stdout}\nstderr: {self.stderr}"


class Place:
    """A fresh working folder with an environment of PATH, HOME, LANG and TMPDIR."""

    def __init__(self, root):
        self.root, self.cwd, self.tmp, self.probe = root, root / "cwd", root / "tmp", root / "probe"
        for folder in (self.cwd, self.tmp, self.probe):
            folder.mkdir()
        self.env = launchers.minimal_environment(root, self.tmp) | {"PROBE_DIR": str(self.probe)}
        if "CPPRUN_CONTAINMENT" in os.environ:  # every case holds in every tier
            self.env["CPPRUN_CONTAINMENT"] = os.environ["CPPRUN_CONTAINMENT"]
        self.binary = str(launchers.cpprun_binary())

    def write(self, name, text, executable=False):
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if executable or text.startswith("#!"):
            path.chmod(0o755)
        return path

    def script(self):
        """A Python script that writes down how it was started."""
        return str(self.write("probe.py", PROBE.read_text()))

    def start(self, *args, env=None, binary=None, wrapper=(), stdin=subprocess.DEVNULL, **options):
        """Starts a launch that the caller ends or waits for; None as a value takes a variable away."""
        environment = {k: v for k, v in (self.env | (env or {})).items() if v is not None}
        return subprocess.Popen([*wrapper, binary or self.binary, *map(str, args)], cwd=self.cwd, env=environment,
                                stdin=stdin, stdout=options.pop("stdout", subprocess.PIPE),
                                stderr=options.pop("stderr", subprocess.PIPE), start_new_session=True, **options)

    def run(self, *args, seconds=60, **options):
        """One launch to its end. Fails when that takes longer than `seconds`: something hangs."""
        began = time.monotonic()
        # Files, not pipes: a process that outlives the launcher would keep a pipe open and us waiting.
        with open(self.root / "stdout", "w+b") as out, open(self.root / "stderr", "w+b") as err:
            process = self.start(*args, **({"stdout": out, "stderr": err} | options))
            try:
                process.wait(seconds)
                hangs = False
            except subprocess.TimeoutExpired:
                processes.end_tree(process)
                hangs = True
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="surrogateescape"))
        result = Result(process.returncode, *texts, time.monotonic() - began)
        if hangs:
            pytest.fail(f"hangs after {seconds} s: {args}\n{result!r}")
        return result

    def records(self):
        """What the probes wrote down, by "ATTEMPT.RANK"."""
        return {path.stem: json.loads(path.read_text()) for path in sorted(self.probe.glob("*.json"))}

    def wait_for_records(self, count, seconds=30):
        processes.wait_until(lambda: len(list(self.probe.glob("*.json"))) >= count, seconds, f"{count} workers")
        return self.records()

    def outlived_by(self, records, seconds=2):
        """The recorded workers that still run, after at most `seconds` for them to die."""
        deadline = time.monotonic() + seconds
        alive = list(records.values())
        while alive and time.monotonic() < deadline:
            alive = [record for record in alive if processes.is_running(record["pid"], record["start"])]
            time.sleep(0.02)
        for record in alive:
            processes.end(record["pid"], record["start"])
        return alive


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture
def long_or():
    """The full count of a repeated proof with CPPRUN_LONG=1, else the short one."""
    def choose(full, short):
        return full if os.environ.get("CPPRUN_LONG") == "1" else short
    return choose


def one_line(text):
    """The text's only line."""
    lines = text.splitlines()
    assert len(lines) == 1, f"not one line:\n{text}"
    return lines[0]
