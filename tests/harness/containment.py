# SPDX-License-Identifier: BSD-3-Clause
"""The tiers in which workers are contained, and workers that do all they can to stay behind."""
import os
import pathlib
import signal
import subprocess
import uuid

import pytest
from harness import processes

TIERS = ["cgroup", "guard", "group"]
THAT_FIND_ALL = ["cgroup", "guard"]  # even those who have detached themselves
COOKIE = "CPPRUN_TEST_COOKIE"

# Detached twice, in a session of its own, deaf to all but SIGKILL, on a terminal of its own; each in a way of its own.
STUBBORN = """#!/bin/sh
deaf='trap "" TERM INT HUP QUIT USR1 USR2; while :; do sleep 1000; done'
sleep 1000 &
sh -c "$deaf" &
(sh -c "$deaf" &)
setsid sh -c "$deaf" &
(setsid sh -c "(setsid sh -c '$deaf' &)" &)
if command -v script > /dev/null; then (setsid script -qfc 'sleep 1000' /dev/null < /dev/null > /dev/null 2>&1 &); fi
"""


def survivors(cookie):
    """Pids of living processes that have the cookie in their environment, by which they are known however they have
    detached themselves."""
    found, wanted = [], f"{COOKIE}={cookie}".encode()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            environment = pathlib.Path("/proc", name, "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            found.append(int(name))
    return found


def end_survivors(cookie):
    """Ends who is left, so that one failed test does not disturb the next."""
    for pid in survivors(cookie):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Subtree:
    """A part of the cgroup tree (v2), below a mount of our own; `wrapper` starts a command in there."""

    def __init__(self, folder):
        self.mount = folder / "cgroup2"
        self.mount.mkdir(parents=True)
        if os.geteuid() != 0:
            pytest.skip("the cgroup tier is tested as root, on a subtree that the test makes")
        mounted = subprocess.run(["mount", "-t", "cgroup2", "none", self.mount], capture_output=True, text=True)
        if mounted.returncode != 0:
            pytest.skip(f"no cgroup v2 to be mounted here: {mounted.stderr.strip()}")
        self.directory = self.mount / f"launcher-test-{uuid.uuid4().hex}"
        try:
            self.directory.mkdir()
        except OSError as error:
            self._unmount()
            pytest.skip(f"no directory to be made in the cgroup tree: {error}")
        if not (self.directory / "cgroup.kill").exists():
            self.close()
            pytest.skip("this kernel has no cgroup.kill")
        self.wrapper = ["sh", "-c", f'echo $$ > "{self.directory}/cgroup.procs" && exec "$@"', "sh"]

    def trees(self):
        """The directories that launches have made in there."""
        return sorted(path.name for path in self.directory.glob("cpprun-*"))

    def close(self):
        (self.directory / "cgroup.kill").write_text("1")
        processes.wait_until(lambda: "populated 0" in (self.directory / "cgroup.events").read_text(), 30,
                             "the end of what is left in the cgroup")
        for below, _, _ in os.walk(self.directory, topdown=False):
            os.rmdir(below)
        self._unmount()

    def _unmount(self):
        subprocess.run(["umount", "-l", self.mount], check=True)


def tier_wrapper(tier, folder, request):
    """The words before a launch that make `tier` possible; skips where it is not."""
    if tier != "cgroup":
        return []
    subtree = Subtree(folder)
    request.addfinalizer(subtree.close)
    return subtree.wrapper
