# SPDX-License-Identifier: BSD-3-Clause
"""User cases about exit codes, error files and ports that are taken; those about the report are in test_evidence_cases.py."""
import json
import os
import signal
import socket

import pytest
from harness import processes

# How the workers end, and the launcher's exit code as torchrun has it and with --exit-code=worker.
ENDS = {
    "all_well": ("exit 0", 0, 0),
    "agreed_code": ("exit 42", 1, 42),
    "killed": ("kill -9 $$", 1, 137),
    "one_of_two": ("test $RANK = 1 && exit 42; exit 0", 1, 42),
    "unknown_option": (None, 2, 2),
}


@pytest.mark.parametrize("policy", ["torchrun", "worker"])
@pytest.mark.parametrize("how", ENDS)
def test_B51_the_exit_code_is_torchruns_or_the_first_failed_workers(place, how, policy):
    script, compatible, own = ENDS[how]
    option = ("--no-such-option",) if script is None else ()
    result = place.run(f"--exit-code={policy}", "--nproc-per-node=2", "--omp-threads=1", *option, "--no-python", "sh", "-c",
                       (script or "true").replace("$$", "$$$$"))
    assert result.code == (own if policy == "worker" else compatible), result


@pytest.mark.parametrize("policy, code", [("torchrun", 1), ("worker", 128 + signal.SIGINT)])
def test_B51_a_stopped_launchers_code_tells_the_signal_on_request(place, policy, code):
    process = place.start(f"--exit-code={policy}", "--no-python", "sh", "-c", "touch here; exec sleep 60")
    processes.wait_until((place.cwd / "here").exists, 30, "the worker")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == code


def test_B56_each_worker_has_a_file_of_its_own_and_the_first_failures_is_copied_to_the_launchers(place):
    place.write("w.py", "import json, os, sys\nif os.environ['RANK'] == '1':\n"
                "    json.dump({'message': {'message': 'ValueError: boom', 'extraInfo': {'py_callstack': 'Traceback', "
                "'timestamp': '17'}}}, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\n    sys.exit(3)\n"
                "import time\ntime.sleep(60)\n")
    result = place.run("-r3", "--log-dir=logs", "--nproc-per-node=2", "--omp-threads=1", "w.py",
                       env={"TORCHELASTIC_ERROR_FILE": str(place.cwd / "mine.json")})
    assert result.code == 1, result
    run, = (place.cwd / "logs").iterdir()
    found = {str(path.relative_to(run)) for path in (run / "attempt_0").rglob("*") if path.is_file()}
    assert found == {f"attempt_0/{rank}/{name}.log" for rank in (0, 1) for name in ("stdout", "stderr")} | {"attempt_0/1/error.json"}
    mine = json.loads((place.cwd / "mine.json").read_text())
    assert mine["message"]["message"] == "ValueError: boom" and mine["message"]["errorCode"] == 3
    assert mine["message"]["extraInfo"]["timestamp"] == "17"


def test_B56_without_a_workers_file_the_report_has_it_all_and_the_launchers_is_left_alone(place):
    """As torchrun, which leaves none either; failure.json holds what the case asks for."""
    result = place.run("--log-dir=logs", "--no-python", "sh", "-c", "exit 7", env={"TORCHELASTIC_ERROR_FILE": str(place.cwd / "mine.json")})
    assert result.code == 1 and not (place.cwd / "mine.json").exists(), result
    path, = (place.cwd / "logs").glob("*/failure.json")
    root = json.loads(path.read_text())["root_cause"]
    assert (root["rank"], root["exit_code"], root["host"]) == (0, 7, os.uname().nodename) and root["timestamp"] > 0


def test_B57_a_port_that_is_taken_is_named_with_its_option_and_its_holder(place):
    with socket.socket() as holder:
        holder.bind(("0.0.0.0", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = place.run("--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", f"--master-port={port}", "--no-python", "true")
    assert result.code != 0 and str(port) in result.stderr and str(os.getpid()) in result.stderr, result
    assert "--master-port" in result.stderr, result
