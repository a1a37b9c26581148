# SPDX-License-Identifier: BSD-3-Clause
"""What is known after a run: events, last words, the report of a failure."""
import json
import os
import pathlib
import signal
import sys

import pytest
from harness import processes


def _events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def _names(events):
    return [event["event"] for event in events]


FAIL_ONCE = 'test "$RANK.$TORCHELASTIC_RESTART_COUNT" = 1.0 && exit 3; test $TORCHELASTIC_RESTART_COUNT = 1 || sleep 60'


def test_events_tell_a_restart_from_its_cause_to_its_end(place):
    result = place.run("--events=events.jsonl", "--max-restarts=1", "--nproc-per-node=2", "--no-python", "sh", "-c",
                       FAIL_ONCE.replace("$", "$$"))
    assert result.code == 0, result
    path = place.cwd / "events.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    events = _events(path)
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert {event["v"] for event in events} == {1}
    assert _names(events)[0] == "run_started" and _names(events)[-1] == "run_ended"
    assert _names(events).count("workers_started") == 2
    ends = [event for event in events if event["event"] == "worker_ended"]
    assert (ends[0]["rank"], ends[0]["how"], ends[0]["exit_code"]) == (1, "failed", 3)
    assert (ends[1]["rank"], ends[1]["how"], ends[1]["signal_name"]) == (0, "stopped", "SIGTERM")
    rounds = [event for event in events if event["event"] == "round_formed"]
    assert [event["reason"] for event in rounds] == ["start", "rank 1 failed (exitcode 3)"]
    assert all(len(event["members"]) == 1 for event in rounds)


def test_events_of_several_runs_stand_in_one_file(place):
    for code in (0, 4):
        assert place.run("--no-python", "sh", "-c", f"exit {code}", env={"CPPRUN_EVENTS": "all.jsonl"}).code == min(code, 1)
    ends = [event for event in _events(place.cwd / "all.jsonl") if event["event"] == "run_ended"]
    assert [event["outcome"] for event in ends] == ["succeeded", "workers_failed"]
    assert ends[1]["root_cause"]["exit_code"] == 4


def test_a_signal_is_an_event_with_its_sender(place):
    process = place.start("--events=events.jsonl", "--no-python", "sh", "-c", "touch here; exec sleep 60")
    processes.wait_until((place.cwd / "here").exists, 30, "the worker")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    received = [event for event in _events(place.cwd / "events.jsonl") if event["event"] == "signal_received"]
    assert received[0]["signal_name"] == "SIGTERM" and f"pid {os.getpid()} " in received[0]["sender"]


@pytest.mark.parametrize("path", ["no/such/folder", ".", "pipe"])
def test_events_that_cannot_be_opened_are_an_error_before_anything_starts(place, path):
    os.mkfifo(place.cwd / "pipe")
    result = place.run(f"--events={path}", "--no-python", "touch", "started")
    assert result.code == 2 and f"--events={path}: cannot open it: " in result.stderr, result
    assert not (place.cwd / "started").exists()


def test_events_into_a_full_disk_are_said_once_and_the_job_goes_on(place):
    result = place.run("--events=/dev/full", "--no-python", "sh", "-c", "echo done")
    assert (result.code, result.stdout) == (0, "done\n"), result
    assert result.stderr.count("cannot write all events to /dev/full: No space left on device") == 1, result


def test_events_into_a_pipe_whose_reader_goes_are_said_once_and_the_job_goes_on(place):
    pipe = place.cwd / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    process = place.start("--events=pipe", "--no-python", "sh", "-c", "touch here; while test ! -e go; do sleep 0.01; done; echo done")
    processes.wait_until((place.cwd / "here").exists, 30, "the worker")
    assert b'"workers_started"' in os.read(reader, 1 << 20)
    os.close(reader)
    (place.cwd / "go").touch()
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"done\n"), err
    assert err.count(b"cannot write all events to pipe: Broken pipe") == 1, err


# --- --capture ---

TELL_STDERR = 'readlink /proc/self/fd/2 >&2'


def test_stderr_is_captured_unless_it_is_a_terminal_or_the_user_says_otherwise(place):
    def target(*options, **fields):
        return place.run(*options, "--no-python", "sh", "-c", TELL_STDERR, **fields).stderr.strip()
    assert target().startswith("/memfd:stderr of local rank 0")
    assert target(env={"CPPRUN_CAPTURE": "file"}).startswith("/memfd:")
    assert target("--capture=off") == str(place.root / "stderr")
    assert target("--log-dir=/dev/null").startswith("/memfd:")
    terminal, worker_side = os.openpty()
    process = place.start("--no-python", "sh", "-c", "test -t 2", stderr=worker_side)
    os.close(worker_side)
    assert process.wait(30) == 0
    os.close(terminal)


def test_what_a_worker_says_comes_before_what_is_said_about_its_end(place):
    for _ in range(20):
        result = place.run("--nproc-per-node=2", "--omp-threads=1", "--no-python", "sh", "-c",
                           "echo last words of $${local_rank} >&2; exit 4")
        first = min(line for line, text in enumerate(result.stderr.splitlines()) if "failed (exitcode: 4)" in text)
        assert any("last words" in text for text in result.stderr.splitlines()[:first]), result


def test_a_stopped_launcher_blocks_no_worker_that_writes_to_stderr(place):
    process = place.start("--no-python", "sh", "-c",
                          "touch here; while test ! -e go; do sleep 0.01; done; head -c 4000000 /dev/zero >&2; touch done; sleep 60")
    processes.wait_until((place.cwd / "here").exists, 30, "the worker")
    process.send_signal(signal.SIGSTOP)
    (place.cwd / "go").touch()
    processes.wait_until((place.cwd / "done").exists, 30, "four megabytes that nobody reads")
    process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert err.count(b"\0") == 4_000_000


def test_a_reader_that_goes_ends_no_worker(place):
    process = place.start("--no-python", "sh", "-c", "touch here; while test ! -e go; do sleep 0.01; done; "
                          "for i in 1 2 3; do echo word >&2 || exit 5; done; touch done")
    processes.wait_until((place.cwd / "here").exists, 30, "the worker")
    process.stderr.close()
    (place.cwd / "go").touch()
    process.wait(30)
    assert process.returncode == 0 and (place.cwd / "done").exists()


# --- what happened ---

def _report(stderr):
    """The lines of the report."""
    lines = stderr.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("---- cpprun report: "))
    assert lines[-1].startswith("verdict   : ") and len(lines) - begin < 25, stderr
    return lines[begin:]


def _verdict(stderr):
    return _report(stderr)[-1].removeprefix("verdict   : ")


def _shell(place, script, nproc=2, *options):
    result = place.run(f"--nproc-per-node={nproc}", "--omp-threads=1", *options, "--no-python", "sh", "-c",
                       script.replace("$", "$$"))
    assert result.code == 1, result
    return result


def test_B54_the_last_screen_shows_the_exception_its_rank_and_host_once(place):
    place.write("boom.py", "import os, time\nif os.environ['RANK'] == '1':\n    raise ValueError('boom')\ntime.sleep(60)\n")
    result = place.run("--nproc-per-node=4", "boom.py")
    last = result.stderr.splitlines()[-25:]
    assert sum("ValueError: boom" in line for line in last) == 1, result
    assert "  | ValueError: boom" in last
    assert any(line.startswith(f"root cause: rank 1 (local rank 1) on {os.uname().nodename}, pid ") for line in last)
    assert "others    : ranks 0, 2-3: stopped by the launcher, SIGTERM (15)" in last
    assert _verdict(result.stderr).endswith("failed first, with exit code 1 (ValueError)")


def test_B54_with_an_error_file_the_message_comes_from_it(place):
    place.write("record.py", "import json, os, sys\njson.dump({'message': {'message': 'ValueError: from the file', "
                "'extraInfo': {'py_callstack': 'Traceback', 'timestamp': '1'}}}, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\n"
                "print('noise', file=sys.stderr)\nsys.exit(1)\n")
    result = place.run("record.py")
    assert "error file: ValueError: from the file" in _report(result.stderr), result
    assert _verdict(result.stderr).endswith("(ValueError)")


def test_B53_a_crash_is_named_with_its_signal_its_core_and_its_last_words(place):
    result = _shell(place, 'test $RANK = 1 || sleep 60; echo last words >&2; ulimit -c 0; kill -SEGV $$')
    report = _report(result.stderr)
    assert "  | last words" in report and any(line.startswith("core      : not dumped") for line in report), result
    assert _verdict(result.stderr).startswith("rank 1 on ") and _verdict(result.stderr).endswith("killed by SIGSEGV (11)")


def test_B53_an_abort_is_named(place):
    assert _verdict(_shell(place, "kill -ABRT $$", 1).stderr).endswith("killed by SIGABRT (6)")


def test_B52_a_kill_from_outside_is_not_blamed_on_memory(place):
    result = _shell(place, "test $RANK = 0 || sleep 60; kill -9 $$")
    memory = [line for line in _report(result.stderr) if line.startswith("memory    : killed by the kernel for want of memory: ")]
    # Something else may run out of memory on this machine meanwhile, which is "likely"; "yes" would name this process.
    assert len(memory) == 1 and ": yes" not in memory[0], result
    assert _verdict(result.stderr).endswith("failed first, killed by SIGKILL (9)")


def test_B55_who_failed_first_is_told_from_those_that_the_launcher_stopped(place):
    result = _shell(place, 'trap "echo told to stop >&2; exit 1" TERM; touch up.$RANK; test $RANK = 2 || { while :; do sleep 0.05; done; };'
                    'while test ! -e up.0 -o ! -e up.1; do sleep 0.01; done; exit 7', 3, "--log-dir=logs")
    report = _report(result.stderr)
    assert _verdict(result.stderr).startswith("rank 2 on ") and _verdict(result.stderr).endswith("with exit code 7")
    assert "others    : ranks 0-1: stopped by the launcher, exit code 1" in report, result
    path, = (place.cwd / "logs").glob("*/failure.json")
    assert path.stat().st_mode & 0o777 == 0o600
    failure = json.loads(path.read_text())
    assert (failure["v"], failure["root_cause"]["rank"], failure["root_cause"]["exit_code"]) == (1, 2, 7)
    assert sorted((one["rank"], one["class"]) for one in failure["failures"]) == [(0, "stopped"), (1, "stopped"), (2, "cause")]
    assert f"logs      : logs/{path.parent.name}" in report


def test_an_import_error_of_all_ranks_is_one_cause(place):
    place.write("lost.py", "import no_such_module\n")
    result = place.run("--nproc-per-node=3", "--settle-time=10s", "lost.py")
    assert "alike     : ranks 0-2 (3 ranks) failed in the same way" in _report(result.stderr), result
    assert _verdict(result.stderr).startswith("ranks 0-2 on ") and "(ModuleNotFoundError)" in _verdict(result.stderr)


def test_a_script_that_refuses_its_arguments_is_named(place):
    place.write("strict.py", "import argparse\nargparse.ArgumentParser().parse_args()\n")
    result = place.run("--nproc-per-node=2", "--settle-time=10s", "strict.py", "--no-such-option")
    assert "  | strict.py: error: unrecognized arguments: --no-such-option" in _report(result.stderr), result
    assert _verdict(result.stderr).endswith("failed first, with exit code 2: the script refused its arguments")


GLOO = """import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 2:
    end()
for _ in range(3):
    dist.all_reduce(torch.ones(1))
"""


def test_peers_that_die_of_a_broken_collective_are_consequences(place):
    place.write("broken.py", "import time\ndef end():\n    time.sleep(3)\n    raise ValueError('the cause')\n" +
                GLOO.replace("end()", "import threading; threading.Thread(target=lambda: None).start(); "
                             "dist.destroy_process_group(); end()"))
    result = place.run("--nproc-per-node=3", "--settle-time=20s", "broken.py", seconds=120)
    assert _verdict(result.stderr).startswith("rank 2 on ") and "(ValueError)" in _verdict(result.stderr), result
    assert any(": a consequence, exit code 1: " in line for line in _report(result.stderr)), result


def test_a_rank_that_ends_early_is_named_when_the_others_only_waited_for_it(place):
    place.write("early.py", "def end():\n    os._exit(0)\n" + GLOO)
    result = place.run("--nproc-per-node=3", "early.py", seconds=120)
    assert _verdict(result.stderr).startswith("rank 2 on ") and "ended early with exit code 0" in _verdict(result.stderr), result


def test_control_sequences_of_workers_do_not_reach_the_report(place):
    result = _shell(place, r"printf '\033[2Jred\033]0;title\007 last\n' >&2; exit 3", 1)
    assert "  | [2Jred]0;title last" in _report(result.stderr)


def test_what_is_not_captured_is_said(place):
    result = _shell(place, "exit 3", 1, "--capture=off")
    assert "stderr    : not captured (--capture)" in _report(result.stderr)


def test_with_a_log_file_the_last_words_come_from_it(place):
    result = _shell(place, "echo last words >&2; exit 3", 1, "-r2", "--log-dir=logs")
    report = _report(result.stderr)
    assert "  | last words" in report and any(line.startswith("all of it : logs/") for line in report), result


@pytest.fixture
def memory_cgroup():
    """A cgroup of 48 MiB without swap, as the folder that takes pids; skips where none can be made."""
    roots = [pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")]
    root = next((root for root in roots if (root / "cgroup.procs").exists()), None)
    if root is None:
        pytest.skip("no cgroups here")
    group = root / f"cpprun-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a cgroup: {error}")
    try:
        names = {"memory.limit_in_bytes": 48 << 20, "memory.max": 48 << 20, "memory.memsw.limit_in_bytes": 48 << 20, "memory.swap.max": 0}
        limited = False
        for name, value in names.items():
            if (group / name).exists():
                (group / name).write_text(str(value))
                limited |= "swap" not in name and "memsw" not in name
        if not limited:
            pytest.skip("cgroups here have no memory controller")
        yield group
    finally:
        processes.wait_until(lambda: not (group / "cgroup.procs").read_text().strip(), 30, "the cgroup to be empty")
        group.rmdir()


def test_B52_a_kill_for_want_of_memory_is_named_with_the_limit(place, memory_cgroup):
    enter = ("sh", "-c", f'echo $$ > {memory_cgroup}/cgroup.procs; exec "$@"', "sh")
    result = place.run("--nproc-per-node=2", "--omp-threads=1", "--no-python", "sh", "-c",
                       'test ${local_rank} = 1 || sleep 60; exec python3 -c "x = bytearray(200 << 20)"', wrapper=enter,
                       env={"PATH": os.path.dirname(sys.executable) + ":/usr/bin:/bin"})
    memory = [line for line in _report(result.stderr) if line.startswith("memory    : ")]
    assert len(memory) == 1 and "want of memory: yes; limit 48.0 MiB (" in memory[0], result
    assert _verdict(result.stderr).startswith("rank 1 on "), result
    assert _verdict(result.stderr).endswith("killed by SIGKILL (9), by the kernel for want of memory")


def test_B65_the_log_folder_holds_an_index_of_the_run(place):
    result = place.run("--log-dir=logs", "-r3", "--max-restarts=1", "--nproc-per-node=2", "--no-python", "sh", "-c",
                       FAIL_ONCE.replace("$", "$$"))
    assert result.code == 0, result
    path, = (place.cwd / "logs").glob("*/run.json")
    assert path.stat().st_mode & 0o777 == 0o600
    index = json.loads(path.read_text())
    assert (index["v"], index["outcome"], index["restarts_used"]) == (1, "succeeded", 1)
    assert index["command"][:2] == ["sh", "-c"] and index["configuration"]["max_restarts"] == 1
    assert [one["reason"] for one in index["rounds"]] == ["start", "rank 1 failed (exitcode 3)"]
    workers = index["rounds"][0]["workers"]
    assert [worker["end"] for worker in workers] == ["stopped", "failed"]
    assert all((place.cwd / worker[name]).is_file() for worker in workers for name in ("stdout", "stderr"))


def test_no_index_is_left_where_no_logs_are(place):
    assert place.run("--no-python", "true").code == 0
    assert list(place.tmp.iterdir()) == []
