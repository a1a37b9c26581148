# SPDX-License-Identifier: BSD-3-Clause
"""What one sees on a terminal while nodes are missing: one line that is written over, and gone when there is more to say."""
import os
import re
import signal
import subprocess

import pytest
from harness import launchers
from harness.ports import free_port
from harness.screen import Screen

COLUMNS = 100
SECONDS_MAX = 40


@pytest.fixture
def screen():
    made = Screen(SECONDS_MAX, columns=COLUMNS)
    yield made
    made.close()


@pytest.mark.parametrize("options,line", [
    (["--node-rank=0", "--master-addr=127.0.0.1", "--master-port={port}"], r"waiting for node rank 1; \d+ s left"),
    (["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=j"],
     r"1 of 2 nodes are here \([^\r\n]*\); gives up in \d+ s"),
    (["--node-rank=1", "--master-addr=127.0.0.1", "--master-port={port}"],
     r"waiting for the store at 127.0.0.1:{port} \([^\r\n]*"),
], ids=["static", "c10d", "no_host"])
def test_who_is_missing_is_one_line_that_is_written_over(screen, options, line):
    port = free_port()
    options = [option.format(port=port) for option in options]
    line = f"\rcpprun: {line.replace('{port}', str(port))}"
    agent = subprocess.Popen([launchers.cpprun_binary(), "--nnodes=2", *options, "--no-python", "true"],
                             stdin=subprocess.DEVNULL, stderr=screen.writer, env=os.environ | {"TERM": "xterm"})
    try:
        screen.wait_for(line + r"\x1b\[K.*" + line + r"\x1b\[K")
        lines = re.findall("\r(cpprun: [^\r\x1b]*)", screen.text)
        assert all(len(shown) < COLUMNS for shown in lines), lines
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(SECONDS_MAX) == 1
        screen.wait_for(r"\r\x1b\[K[^\r]*Received 15")
    finally:
        if agent.poll() is None:
            agent.kill()
            agent.wait()
