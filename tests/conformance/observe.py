# SPDX-License-Identifier: BSD-3-Clause
"""Runs a scenario's command in a fresh place and writes down all that can be seen of it, unchanged."""
import json
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import tempfile
import time

from harness import launchers, processes

WORKERS = pathlib.Path(__file__).parent / "workers"
SECONDS_MAX = 100  # a launch that takes longer hangs


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Place:
    """A fresh folder tree for one launch. Both launchers' roots have the same length, as the failure table's width
    follows the longest line."""

    def __init__(self, scenario):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="conform_"))
        self.cwd, self.tmp, self.home, self.probe, self.bin = (
            self.root / name for name in ("cwd", "tmp", "home", "probe", "bin"))
        for folder in (self.cwd, self.tmp, self.home, self.probe, self.bin):
            folder.mkdir()
        shutil.copy(WORKERS / "probe.py", self.cwd / "w.py")
        for worker in WORKERS.glob("*.py"):
            shutil.copy(worker, self.cwd / worker.name)
        self._executable("e", f"#!{launchers.python_with_torch()}\n" + (WORKERS / "probe.py").read_text())
        self._executable("w.sh", "#!/bin/sh\nprintf '%s\\n' \"$(printf '[%s]' \"$0\" \"$@\")\"\n")
        for name, text in scenario.files.items():
            path = self.cwd / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("#!"):
                self._executable(name, text)
            else:
                path.write_text(text)
        self.given = {path.relative_to(self.root) for path in self.root.rglob("*")}

    def _executable(self, name, text):
        (self.cwd / name).write_text(text)
        (self.cwd / name).chmod(0o755)

    def files_left(self):
        """Everything below the working and the temporary folder that was not there before: (path, mode, text)."""
        left = []
        for top in (self.cwd, self.tmp):
            for path in sorted(top.rglob("*")):
                relative = path.relative_to(self.root)
                if relative in self.given or "__pycache__" in relative.parts or "matplotlib" in str(relative):
                    continue
                mode = path.lstat().st_mode
                text = path.read_bytes().decode(errors="backslashreplace") if stat.S_ISREG(mode) else None
                left.append((str(relative), stat.filemode(mode), text))
        return left

    def records(self):
        """What the workers wrote down, by "ATTEMPT.RANK"."""
        return {path.stem: json.loads(path.read_text()) for path in sorted(self.probe.glob("*.json"))}

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


class Running:
    """The launcher while it runs, as a scenario's `act` sees it."""

    def __init__(self, process, place):
        self._process, self._place = process, place

    def wait_for_workers(self, count, attempt=0):
        processes.wait_until(lambda: len(list(self._place.probe.glob(f"{attempt}.*.json"))) >= count
                             or self._process.poll() is not None, 60, f"{count} workers of attempt {attempt}")

    def signals_arrive(self, count, seconds):
        """Whether the workers of signal_log.py have written down that many signals within that time."""
        try:
            processes.wait_until(lambda: sum(len(path.read_text().split()) for path in
                                             self._place.probe.glob("*.signals")) >= count, seconds, f"{count} signals")
        except TimeoutError:
            return False
        return True

    def signal(self, number):
        if self._process.poll() is None:
            os.kill(self._process.pid, number)

    def signal_group(self, number):
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def pause(self, seconds):
        time.sleep(seconds)


class _BusyPort:
    def __enter__(self):
        self.socket = socket.socket()
        self.socket.bind(("0.0.0.0", 0))
        self.socket.listen()
        return self.socket.getsockname()[1]

    def __exit__(self, *_):
        self.socket.close()


def _command(launcher, place):
    """cpprun runs under the name torchrun, through a link, as a user replaces the one by the other."""
    if launcher == "torchrun":
        return str(launchers.torchrun_script())
    link = place.bin / "torchrun"
    link.symlink_to(launchers.cpprun_binary())
    return str(link)


def observe(scenario, launcher):
    """One launch: everything that can be seen, before any normalisation. `launcher` is "torchrun" or "cpprun"."""
    place = Place(scenario)
    ports = {"@P@": str(free_port()), "@Q@": str(free_port())}
    try:
        with _BusyPort() as busy:
            ports["@BUSY@"] = str(busy)
            return _observe(scenario, launcher, place, ports)
    finally:
        place.remove()


def _fill_in(text, ports):
    for mark, port in ports.items():
        text = text.replace(mark, port)
    return text


def _used(ports, scenario):
    """Without those that the scenario does not name: the launcher may come upon one of them by itself."""
    words = [*scenario.args, *scenario.env.values()]
    return {mark: port for mark, port in ports.items() if any(mark in word for word in words)}


def _observe(scenario, launcher, place, ports):
    environment = launchers.minimal_environment(place.home, place.tmp)
    environment["PROBE_DIR"] = str(place.probe)
    environment.update({name: _fill_in(value, ports) for name, value in scenario.env.items()})
    command = [*scenario.wrapper, _command(launcher, place), *(_fill_in(word, ports) for word in scenario.args)]
    out_path, err_path = place.root / "out", place.root / "err"
    with open(out_path, "wb") as out, open(err_path, "wb") as err:
        stdout, closed = out, None
        if scenario.stdout == "closed":
            closed, stdout = os.pipe()
        process = subprocess.Popen(command, cwd=place.cwd, env=environment, stdin=subprocess.PIPE, stdout=stdout,
                                   stderr=err, start_new_session=True)
        if closed is not None:
            os.close(closed)
            os.close(stdout)
        process.stdin.write(scenario.stdin)
        process.stdin.close()
        try:
            if scenario.act:
                scenario.act(Running(process, place))
            code = process.wait(SECONDS_MAX)
        except (subprocess.TimeoutExpired, TimeoutError) as hang:
            processes.end_tree(process)
            _end_all(place.records())
            raise AssertionError(f"{launcher} hangs ({hang}); stderr so far:\n{err_path.read_text(errors='replace')}")
    records = place.records()
    orphans = _orphans(records)
    _end_all(records)
    return {
        "exit": code, "pid": process.pid, "root": str(place.root), "ports": _used(ports, scenario), "orphans": orphans,
        "stdout": out_path.read_bytes().decode(errors="backslashreplace"),
        "stderr": err_path.read_bytes().decode(errors="backslashreplace"),
        "workers": records, "launcher_env": environment, "files": place.files_left(),
        "signals": {path.stem: path.read_text().split() for path in sorted(place.probe.glob("*.signals"))},
    }


def _orphans(records):
    """How many workers outlive the launcher. One that is about to die gets a second for it."""
    alive = [record for record in records.values() if processes.is_running(record["pid"], record["start"])]
    deadline = time.monotonic() + 1
    while alive and time.monotonic() < deadline:
        time.sleep(0.05)
        alive = [record for record in alive if processes.is_running(record["pid"], record["start"])]
    return len(alive)


def _end_all(records):
    for record in records.values():
        processes.end(record["pid"], record["start"])


