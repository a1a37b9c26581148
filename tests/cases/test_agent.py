# SPDX-License-Identifier: BSD-3-Clause
"""The agent from end to end: exit codes, stopping, restarts, what is left behind. Bounds are against hanging only."""
import json
import os
import re
import shutil
import signal
import socket
import time

import pytest
from conftest import PROBE
from harness import processes

SIGNAL_LOG = (PROBE.parent / "signal_log.py").read_text()


def _row_codes(stderr):
    return [int(code) for code in re.findall(r"exitcode  : (-?\d+) ", stderr)]


def test_every_exit_code_of_a_worker_is_in_the_report(place):
    for code in range(256):
        result = place.run("--no-python", "sh", "-c", f"exit {code}")
        if code == 0:
            assert (result.code, result.stdout, result.stderr) == (0, "", "")
            continue
        assert result.code == 1, (code, result)
        assert _row_codes(result.stderr) == [code], result
        assert f"failed (exitcode: {code}) local_rank: 0 (pid: " in result.stderr
        assert "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" in result.stderr


@pytest.mark.parametrize("code,expected", [("exit 7", 7), ("exit 255", 255), ("kill -9 $$$$", 137), ("kill -15 $$$$", 143)])
def test_the_workers_code_passes_through_on_request(place, code, expected):
    assert place.run("--exit-code=worker", "--no-python", "sh", "-c", code).code == expected
    assert place.run("--no-python", "sh", "-c", code, env={"CPPRUN_EXIT_CODE": "worker"}).code == expected
    assert place.run("--no-python", "sh", "-c", code).code == 1


def test_every_signal_that_kills_a_worker_is_in_the_report(place):
    ended_by = [n for n in signal.Signals if n not in (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH,
                                                        signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)]
    for number in ended_by:
        result = place.run("--no-python", "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$$$")
        assert result.code == 1 and _row_codes(result.stderr) == [-number], (number, result)
        name = {signal.SIGIOT: "SIGABRT", signal.SIGPOLL: "SIGIO"}.get(number, number.name)
        assert re.search(rf"\(({name}|{number.name})\)", result.stderr), (number, result)


def _start_workers(place, mode, *options, count=2, **fields):
    place.write("signal_log.py", SIGNAL_LOG)
    process = place.start(*options, f"--nproc-per-node={count}", "signal_log.py", mode, **fields)
    return process, place.wait_for_records(count)


def _signals(place, rank):
    path = place.probe / f"0.{rank}.signals"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_is_forwarded_once_and_the_run_ends_with_1(place, number):
    process, records = _start_workers(place, "log")
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1, err
    assert [_signals(place, rank) for rank in (0, 1)] == [[number.name]] * 2
    assert place.outlived_by(records) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV])
def test_no_worker_outlives_a_launcher_that_is_killed(place, number):
    process, records = _start_workers(place, "ignore", "--shutdown-timeout=1")
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == -number
    assert place.outlived_by(records, 5) == []


def test_no_worker_outlives_a_launcher_that_ends_by_a_signal_not_in_the_list(place):
    process, records = _start_workers(place, "ignore", "--signals-to-handle=SIGUSR1", "--shutdown-timeout=1")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert place.outlived_by(records, 5) == []


def test_the_shutdown_timeout_holds_when_a_worker_fails(place):
    """torchrun waits 30 s here whatever the option says; the bound is far below that."""
    place.write("signal_log.py", SIGNAL_LOG)
    began = time.monotonic()
    result = place.run("--shutdown-timeout=1", "--nproc-per-node=2", "signal_log.py", "ignore|exit 3", seconds=25)
    assert result.code == 1 and sorted(_row_codes(result.stderr)) == [-9, 3], result
    assert "via 15, forcefully exiting via 9" in result.stderr
    assert time.monotonic() - began < 25
    assert place.outlived_by(place.records()) == []


def test_the_shutdown_timeout_holds_before_a_restart(place):
    place.write("signal_log.py", SIGNAL_LOG)
    result = place.run("--shutdown-timeout=1", "--max-restarts=1", "--nproc-per-node=2", "signal_log.py",
                       "ignore|exit 3", seconds=25)
    assert result.code == 1, result
    assert len(re.findall(r"failed \(exitcode: 3\)", result.stderr)) == 2, result


def test_a_stopped_worker_is_ended_too(place):
    result = place.run("--shutdown-timeout=1", "--nproc-per-node=2", "--no-python", "sh", "-c",
                       "[ $RANK = 0 ] && kill -STOP $$$$; sleep 1; exit 3", seconds=25)
    assert result.code == 1 and sorted(_row_codes(result.stderr)) == [-9, 3], result


def test_children_of_workers_are_stopped_when_the_group_fails(place):
    """The plain and the double-forked ones, of the worker that failed too; those in a session of their own are out of
    reach. torchrun leaves the failed worker's."""
    place.write("tree.sh", "#!/bin/sh\nsleep 77 & echo $! >> pids\n(sleep 77 & echo $! >> pids)\n"
                "[ $RANK = 1 ] && { sleep 1; exit 3; }\nsleep 60\n")
    result = place.run("--shutdown-timeout=2", "--nproc-per-node=2", "--no-python", "./tree.sh")
    assert result.code == 1, result
    pids = [int(word) for word in (place.cwd / "pids").read_text().split()]
    assert len(pids) == 4
    alive = [pid for pid in pids if (processes.stat_fields(pid) or [b"X"])[0] not in (b"Z", b"X")]
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    assert alive == []


def test_the_start_that_fails_half_way_stops_what_it_had_started(place):
    """The log files of many workers need more descriptors than there may be."""
    result = place.run("--nproc-per-node=24", "-r", "3", "--log-dir", "L", place.script(),
                       env={"PROBE_DO": "sleep"}, wrapper=("sh", "-c", 'ulimit -n 40; ulimit -Hn 40; exec "$@"', "sh"))
    if result.code == 0:
        pytest.fail("the limit did not bite")
    assert result.code == 1 and "Traceback" not in result.stderr, result
    assert place.outlived_by(place.records(), 5) == []


def test_ranks_that_fail_together_are_reported_with_their_own_codes(place):
    place.write("together.py", "import os, sys, time\nrank = os.environ['RANK']\nopen(f'up{rank}', 'w').close()\n"
                "while sum(name.startswith('up') for name in os.listdir('.')) < 3: time.sleep(0.001)\n"
                "os._exit(10 + int(rank))\n")
    result = place.run("--settle-time=2s", "--nproc-per-node=3", "together.py")
    assert result.code == 1 and sorted(_row_codes(result.stderr)) == [10, 11, 12], result
    assert "closing signal" not in result.stderr


def test_an_ignored_hangup_stays_ignored(place):
    process, records = _start_workers(place, "log", wrapper=("nohup",), stdin=None)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.poll() is None and _signals(place, 0) == []
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 1 and _signals(place, 0) == ["SIGTERM"]
    assert place.outlived_by(records) == []


def test_a_signal_in_the_first_moments_leaves_nobody_behind(place):
    for delay in (0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.05):
        process = place.start("--nproc-per-node=2", place.script(), env={"PROBE_DO": "sleep"})
        time.sleep(delay)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=40)
        assert process.returncode in (1, -15), (delay, process.returncode)
        assert place.outlived_by(place.records(), 5) == []
        for path in place.probe.glob("*"):
            path.unlink()


@pytest.mark.parametrize("text", ['{"mess', "", "[1,2]", '{"foo":1}', '{"message":5}', '{"message":{"message":"m"}}',
                                  "x" * (2 << 20)])
def test_a_broken_error_file_is_reported_and_restarts_go_on(place, text):
    place.write("text", text)
    place.write("broken.py", "import os, shutil, sys\nshutil.copy('text', os.environ['TORCHELASTIC_ERROR_FILE'])\n"
                "sys.exit(7)\n")
    result = place.run("--max-restarts=1", "broken.py")
    assert result.code == 1 and _row_codes(result.stderr) == [7], result
    assert len(re.findall(r"failed \(exitcode: 7\)", result.stderr)) == 2, result
    assert "error.json" in result.stderr and "Traceback" not in result.stderr, result


@pytest.mark.parametrize("make", ["mkfifo $F", "ln -s /etc/passwd $F", "mkdir $F", "ln -s /dev/zero $F"])
def test_a_hostile_error_file_is_neither_followed_nor_waited_for(place, make):
    result = place.run("--no-python", "sh", "-c", f"F=$TORCHELASTIC_ERROR_FILE; {make}; exit 7", seconds=20)
    assert result.code == 1 and _row_codes(result.stderr) == [7], result
    assert "root:" not in result.stderr


def test_a_native_program_as_script_runs_without_python(place):
    shutil.copy("/bin/echo", place.cwd / "train")
    for name in ("train", "./train", str(place.cwd / "train")):
        result = place.run("--nproc-per-node=2", name, "rank", "$local_rank", env={"OMP_NUM_THREADS": "1"})
        assert result.code == 0 and result.lines == ["rank 0", "rank 1"], result


def test_two_launches_at_once_do_not_meet(place):
    started = [place.start("--no-python", "sh", "-c", "sleep 1; echo $MASTER_PORT") for _ in range(2)]
    ports = {process.communicate(timeout=30)[0] for process in started}
    assert [process.returncode for process in started] == [0, 0] and len(ports) == 2


def test_nothing_is_left_behind_by_a_success(place):
    assert place.run("--nproc-per-node=2", "--no-python", "true").code == 0
    assert list(place.tmp.iterdir()) == []


def test_completion_scripts_come_from_the_binary_alone(place):
    for shell in ("bash", "zsh", "tcsh"):
        result = place.run("--print-completion", shell)
        assert result.code == 0 and "nproc-per-node" in result.stdout, result


def test_the_log_folder_is_private(place):
    assert place.run("-r", "3", "--no-python", "echo", "hi").code == 0
    left = list(place.tmp.iterdir())
    assert len(left) == 1 and left[0].stat().st_mode & 0o777 == 0o700, left


def test_a_closed_console_does_not_hurt_the_workers(place):
    read, write = os.pipe()
    process = place.start("-t", "1", "--log-dir", "L", "--no-python", "sh", "-c", "seq 1 50000; touch done", stdout=write)
    os.close(read)
    os.close(write)
    process.communicate(timeout=30)
    assert process.returncode == 0 and (place.cwd / "done").exists()


def test_events_are_json_lines(place):
    result = place.run("--event-log-handler=console", "--no-python", "true")
    events = [json.loads(line) for line in result.stderr.splitlines()]
    states = [event["metadata"]["state"] for event in events]
    assert states[0] == "RENDEZVOUS" and states[-1] == "SUCCEEDED" and "START" in states, states


def test_the_report_names_the_host_as_it_calls_itself(place):
    result = place.run("--no-python", "sh", "-c", "exit 3")
    assert re.search(rf"^  host      : {re.escape(socket.gethostname())}(\.[\w.-]+)?$", result.stderr, re.MULTILINE), result


def test_a_c10d_job_of_one_node_leaves_its_endpoint_alone(place):
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0.2)
        port = stranger.getsockname()[1]
        result = place.run("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--no-python",
                           "sh", "-c", "echo $MASTER_PORT")
        assert result.code == 0 and result.stdout.strip() != str(port), result
        with pytest.raises(TimeoutError):
            stranger.accept()
