# SPDX-License-Identifier: BSD-3-Clause
"""User case B25: signs of life in every phase."""
import json
import os
import re
import signal
import socket
import time
import urllib.request

import pytest
from harness import processes
from harness.ports import free_port


class Watched:
    """A launch with a health file and a health port."""

    def __init__(self, place, *words, **fields):
        self.file, self.port = place.root / "health", free_port()
        self.process = place.start(f"--health-file={self.file}", f"--health-port={self.port}", *words,
                                   stdout=open(place.root / "out", "wb"), stderr=open(place.root / "err", "wb"), **fields)

    def record(self):
        return json.loads(self.file.read_text()) if self.file.exists() else {}

    def asked(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=20) as answer:
            assert answer.status == 200
            return json.load(answer)

    def wait_for(self, phase):
        """The phase shows in the file, and in the answer; and the file goes on being written."""
        processes.wait_until(lambda: self.record().get("phase") == phase, 30, lambda: f"{phase}: {self.record()}")
        answer = self.asked()
        assert answer["phase"] == phase and answer["pid"] == self.process.pid, answer
        before = self.file.stat().st_mtime_ns
        processes.wait_until(lambda: self.file.stat().st_mtime_ns != before, 30, f"a new file in {phase}")
        return self.record()


def test_B25_every_phase_has_signs_of_life(place):
    place.write("w.sh", "#!/bin/sh\ntrap '' TERM\n[ $TORCHELASTIC_RESTART_COUNT = 0 ] && while [ ! -e fail ]; do sleep 0.1; "
                "done && exit 3\nwhile :; do sleep 0.1; done\n")
    one = Watched(place, "--nproc-per-node=2", "--omp-threads=1", "--max-restarts=1", "--restart-backoff=5",
                  "--shutdown-timeout=5", "--no-python", "./w.sh")
    record = one.wait_for("running")
    assert (record["world_size"], record["local_world_size"], record["round"], record["restart_count"]) == (2, 2, 0, 0)
    (place.cwd / "fail").touch()
    one.wait_for("waiting")
    assert one.wait_for("running")["restart_count"] == 1
    one.process.send_signal(signal.SIGTERM)
    one.wait_for("stopping")
    assert one.process.wait(60) == 1


@pytest.mark.parametrize("options", [["--rdzv-backend=c10d"], []], ids=["c10d", "static"])
def test_B25_an_agent_that_waits_for_other_nodes_gives_signs_of_life(place, options):
    where = f"--rdzv-endpoint=127.0.0.1:{free_port()}" if options else f"--master-port={free_port()}"
    one = Watched(place, "--nnodes=2", *options, where, "--no-python", "true")
    record = one.wait_for("joining")
    assert record["world_size"] == 0
    processes.wait_until(lambda: one.record()["seconds_in_phase"] > record["seconds_in_phase"], 30, "time in the phase")
    one.process.terminate()
    assert one.process.wait(30) == 1


def test_B25_an_agent_in_the_exit_barrier_gives_signs_of_life(place):
    port = free_port()
    place.write("w.sh", "#!/bin/sh\nwhile [ $RANK = 1 ] && [ ! -e end ]; do sleep 0.1; done\n")
    one = Watched(place, "--nnodes=2", "--node-rank=0", f"--master-port={port}", "--no-python", "./w.sh")
    other = place.start("--nnodes=2", "--node-rank=1", f"--master-port={port}", "--no-python", "./w.sh")
    one.wait_for("barrier")
    (place.cwd / "end").touch()
    assert (one.process.wait(60), other.wait(60)) == (0, 0)


def test_B25_a_frozen_agent_gives_none(place):
    one = Watched(place, "--no-python", "sleep", "100")
    one.wait_for("running")
    one.process.send_signal(signal.SIGSTOP)
    processes.wait_until(lambda: processes.stat_fields(one.process.pid)[0] == b"T", 30, "the stop")
    before = one.file.stat().st_mtime_ns
    time.sleep(2.5)
    assert one.file.stat().st_mtime_ns == before
    one.process.send_signal(signal.SIGCONT)
    one.wait_for("running")
    one.process.terminate()
    assert one.process.wait(60) == 1


def test_a_health_port_that_is_taken_is_a_warning(place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = place.run(f"--health-port={port}", "--no-python", "true")
    assert result.code == 0, result
    assert re.fullmatch(rf".*no health check: .*{port}.*\n", result.stderr), result


def test_torchs_variable_names_the_health_port_too(place):
    port = free_port()
    place.write("ask.py", "import sys, urllib.request\n"
                f"print(urllib.request.urlopen('http://127.0.0.1:{port}/').status)\n")
    result = place.run("ask.py", env={"TORCHELASTIC_HEALTH_CHECK_PORT": str(port)})
    assert (result.code, result.stdout, result.stderr) == (0, "200\n", ""), result
