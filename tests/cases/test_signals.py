# SPDX-License-Identifier: BSD-3-Clause
"""User cases of signals, B43 to B49, and what else docs/signals.md promises. Bounds are against hanging only."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest
from harness import processes
from harness.ports import free_port

# Signs up, and writes down each signal that it hears: name by name in RANK.log. Ends when it finds "end" there.
WORKER = """
import os, signal, sys, time
rank = os.environ["RANK"]
def hear(number, frame):
    with open(rank + ".log", "a") as log:
        log.write(signal.Signals(number).name + chr(10))
    if number in leaves_on:
        os._exit(0)
names = dict(TERM=15, INT=2, HUP=1, QUIT=3, USR1=10, USR2=12)
leaves_on = {names[name] for name in sys.argv[1:]}
for number in names.values():
    signal.signal(number, hear)
with open(rank + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(rank + ".part", rank + ".pid")
limit = time.monotonic() + 100
while not os.path.exists("end") and time.monotonic() < limit:
    time.sleep(0.02)
"""


class Job:
    """Workers that log signals, under a launcher that is signalled."""

    def __init__(self, place, *options, leaves_on=(), count=2, **fields):
        place.write("worker.py", WORKER)
        self.place, self.count = place, count
        self.err = open(place.root / "err", "w+b")
        self.process = place.start(f"--nproc-per-node={count}", "--omp-threads=1", *options, "worker.py", *leaves_on,
                                   stderr=self.err, stdout=self.err, **fields)
        self.pids = [self._pid(rank) for rank in range(count)]
        self.started = {pid: processes.start_time(pid) for pid in self.pids}

    def _pid(self, rank):
        path = self.place.cwd / f"{rank}.pid"
        processes.wait_until(lambda: path.exists() or self.process.poll() is not None, 60, f"worker {rank}")
        assert path.exists(), self.said()
        return int(path.read_text())

    def send(self, *numbers):
        for number in numbers:
            self.process.send_signal(number)

    def heard(self, rank=0):
        path = self.place.cwd / f"{rank}.log"
        return path.read_text().split() if path.exists() else []

    def wait_for_heard(self, *names):
        for rank in range(self.count):
            processes.wait_until(lambda: self.heard(rank) == list(names), 30, lambda: f"{names}, {self.heard(rank)}")

    def finish(self):
        (self.place.cwd / "end").touch()
        return self.process.wait(60)

    def wait(self, seconds=60):
        code = self.process.wait(seconds)
        alive = [pid for pid, started in self.started.items() if processes.is_running(pid, started)]
        for pid in alive:
            processes.end(pid, self.started[pid])
        assert alive == [], self.said()
        return code

    def said(self):
        self.err.flush()
        return (self.place.root / "err").read_text(errors="replace")

    def wait_for_said(self, text):
        processes.wait_until(lambda: text in self.said(), 30, lambda: f"{text!r} in:\n{self.said()}")

    def states(self):
        return [(processes.stat_fields(pid) or [b"X"])[0].decode() for pid in (self.process.pid, *self.pids)]


@pytest.fixture
def job(place):
    jobs = []

    def start(*options, **fields):
        jobs.append(Job(place, *options, **fields))
        return jobs[-1]
    yield start
    for one in jobs:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGCONT)
            processes.end_tree(one.process)
        one.err.close()


# A save that takes longer than the grace period is cut off, one that takes less is not: B43, B44.

SAVER = """
import os, signal, sys, time
def save(number, frame):
    time.sleep(float(sys.argv[1]))
    open("saved", "w").close()
    os._exit(0)
signal.signal(signal.SIGTERM, save)
open("up" + os.environ["RANK"], "w").close()
limit = time.monotonic() + 100
while time.monotonic() < limit:
    time.sleep(0.02)
    if os.environ["RANK"] == "1" and os.path.exists("fail") and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os._exit(3)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "1":
        os._exit(0)
"""
PATHS = {
    "signal": ([], lambda place, process: process.send_signal(signal.SIGTERM)),
    "failure": ([], lambda place, process: (place.cwd / "fail").touch()),
    "restart": (["--max-restarts=1"], lambda place, process: (place.cwd / "fail").touch()),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("options,env,saved", [
    (["--shutdown-timeout=1"], {}, False),
    (["--shutdown-timeout=60"], {}, True),
    ([], {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "1"}, False),
    (["--shutdown-timeout=60"], {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "1"}, True),
])
def test_B43_B44_a_save_has_the_time_that_the_option_gives_on_every_path(place, path, options, env, saved):
    if path != "signal" and env and not saved:
        pytest.skip("the variable is the option by another name")
    more, act = PATHS[path]
    place.write("saver.py", SAVER)
    process = place.start(*options, *more, "--nproc-per-node=2", "saver.py", "3" if saved else "50", env=env)
    for rank in (0, 1):
        processes.wait_until(lambda: (place.cwd / f"up{rank}").exists(), 60, "the workers")
    act(place, process)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (0 if path == "restart" else 1), err
    assert (place.cwd / "saved").exists() == saved, err


def test_B43_who_is_waited_for_and_for_how_long_is_said_every_10_seconds(job):
    one = job("--shutdown-timeout=100")
    one.send(signal.SIGTERM)
    one.wait_for_heard("SIGTERM")
    one.wait_for_said("waiting for ")
    line = next(line for line in one.said().splitlines() if "waiting for " in line)
    said = re.search(r"waiting for rank 0 \(pid (\d+)\), rank 1 \(pid (\d+)\) to end; SIGKILL in (\d+) s$", line)
    assert said and [int(said[1]), int(said[2])] == one.pids and 0 < int(said[3]) <= 90, line
    assert one.finish() == 1, one.said()


# Forwarding: B45.

def test_B45_a_forwarded_signal_reaches_the_workers_and_the_run_goes_on(job):
    one = job("--forward-signals=USR1,SIGUSR2")
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
        before = len(one.heard())
        one.send(number)
        for rank in (0, 1):
            processes.wait_until(lambda: len(one.heard(rank)) > before, 30, "the signal")
    assert one.heard(0) == one.heard(1) == ["SIGUSR1", "SIGUSR2", "SIGUSR1"]
    assert one.finish() == 0, one.said()
    assert one.said() == ""


def test_B45_a_forwarded_signal_that_came_ignored_is_forwarded_all_the_same(job):
    one = job("--forward-signals=USR1", wrapper=("sh", "-c", "trap '' USR1; exec \"$@\"", "sh"))
    one.send(signal.SIGUSR1)
    one.wait_for_heard("SIGUSR1")
    assert one.finish() == 0, one.said()


def test_B45_a_real_time_signal_is_forwarded_by_number(place):
    place.write("w.py", "import signal, time\nsignal.signal(40, lambda n, f: exit(0))\nopen('up', 'w').close()\n"
                "time.sleep(60)\nexit(9)\n")
    process = place.start("--forward-signals=40", "w.py")
    processes.wait_until(lambda: (place.cwd / "up").exists(), 60, "the worker")
    process.send_signal(40)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def test_B45_in_torchruns_list_it_ends_the_run(job):
    one = job("--signals-to-handle=SIGUSR1", leaves_on=["USR1"])
    one.send(signal.SIGUSR1)
    assert one.wait() == 1 and one.heard() == ["SIGUSR1"], one.said()


def test_B45_in_no_list_it_ends_the_launcher_after_its_workers(job):
    one = job("--shutdown-timeout=1", leaves_on=["TERM"])
    one.send(signal.SIGUSR1)
    assert one.wait() == -signal.SIGUSR1 and one.heard() == ["SIGTERM"], one.said()


def test_a_signal_to_handle_that_ends_no_process_by_default_is_handled_too(job):
    """SIGXCPU is not among those that are held from the first instant."""
    one = job("--signals-to-handle=SIGXCPU,SIGTERM", "--shutdown-timeout=1")
    one.send(signal.SIGXCPU)
    assert one.wait() == 1, one.said()
    assert "Received 24 death signal" in one.said()


# nohup: B46. The ignored signals of a shell's background jobs.

def test_B46_nohup_protects_launcher_and_workers(job):
    one = job(wrapper=("nohup",), stdin=None)
    for pid in (one.process.pid, *one.pids):
        ignored = int(re.search(r"SigIgn:\s*(\w+)", open(f"/proc/{pid}/status").read())[1], 16)
        # Python's worker has set a handler of its own by now.
        assert pid in one.pids or ignored & 1, pid
    os.killpg(one.process.pid, signal.SIGHUP)
    assert one.finish() == 0, one.said()
    assert one.heard() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_B46_a_background_jobs_ignored_interrupt_is_heard(job, number):
    one = job(leaves_on=["INT", "QUIT"], wrapper=("sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh"))
    one.send(number)
    assert one.wait() == 1 and one.heard() == [number.name], one.said()


# Ctrl+C: B47.

class Terminal:
    """A launcher in the foreground of a terminal of its own."""

    def __init__(self, place, *words, kind="dumb"):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(place.cwd)
            os.execve(place.binary, [place.binary, *words], place.env | {"TERM": kind})
        self.shown = b""

    def press(self, keys):
        os.write(self.fd, keys)

    def read(self, seconds=0.05):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            part = os.read(self.fd, 4096)
        except OSError:
            return False
        self.shown += part
        return bool(part)

    def wait_for(self, condition, what):
        def look():
            self.read(0.01)
            return condition()
        processes.wait_until(look, 60, lambda: f"{what}; shown: {self.shown}")

    def wait(self, seconds=60):
        deadline = time.monotonic() + seconds
        while self.read():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                pytest.fail(f"hangs; shown: {self.shown}")
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def lines(self):
        """What stays on the screen: a line that says for whom one waits is taken away again."""
        self.shown = re.sub(rb"\r[^\r\n]*\x1b\[K", b"", self.shown)
        text = re.sub(r"\x1b\[[\d;]*m", "", self.shown.decode())
        assert re.sub(r"\r\n", "", text).isprintable(), text
        return [line for line in text.split("\r\n") if line]


def workers_up(place, count=2):
    return lambda: all((place.cwd / f"{rank}.pid").exists() for rank in range(count))


def pids(place, count=2):
    return [int((place.cwd / f"{rank}.pid").read_text()) for rank in range(count)]


def gone(found):
    return all((processes.stat_fields(pid) or [b"X"])[0] in (b"X", b"Z") for pid in found)


def test_B47_ctrl_c_is_one_line_and_leaves_nothing(place, long_or):
    """100 times with CPPRUN_LONG=1."""
    place.write("worker.py", WORKER)
    for _ in range(long_or(100, 5)):
        for path in place.cwd.glob("?.*"):
            path.unlink()
        terminal = Terminal(place, "--nproc-per-node=2", "--omp-threads=1", "worker.py", "INT")
        terminal.wait_for(workers_up(place), "the workers")
        found = pids(place)
        terminal.press(b"\x03")
        assert terminal.wait() == 1, terminal.shown
        assert len(terminal.lines()) == 1, terminal.shown
        assert re.fullmatch(r"(\^C)?W.*\] Received 2 death signal, shutting down workers \(sent by the terminal\)",
                            terminal.lines()[0]), terminal.shown
        assert [(place.cwd / f"{rank}.log").read_text() for rank in (0, 1)] == ["SIGINT\n"] * 2
        assert gone(found)


def test_B47_ctrl_c_is_one_line_with_stubborn_descendants_too(place):
    """A child that is deaf costs the whole grace period, and a line on the terminal that goes again says so."""
    place.write("deaf.sh", "#!/bin/sh\ntrap '' INT TERM\necho $$ > 1.part\nmv 1.part 1.pid\nexec sleep 100\n")
    place.write("w.sh", "#!/bin/sh\n./deaf.sh &\necho $$ > 0.part\nmv 0.part 0.pid\nexec sleep 100\n")
    terminal = Terminal(place, "--shutdown-timeout=5", "--no-python", "./w.sh", kind="xterm")
    terminal.wait_for(workers_up(place), "the worker and its child")
    found = pids(place)
    terminal.press(b"\x03")
    assert terminal.wait() == 1, terminal.shown
    assert f"waiting for {found[1]} (sleep) of rank 0 to end; SIGKILL in " in terminal.shown.decode()
    assert len(terminal.lines()) == 1, terminal.shown
    assert gone(found)


@pytest.mark.parametrize("keys,name", [(b"\x03", "SIGINT"), (b"\x1c", "SIGQUIT")])
def test_B47_the_second_key_kills_at_once(place, keys, name):
    place.write("worker.py", WORKER)
    terminal = Terminal(place, "--exit-code=worker", "--nproc-per-node=2", "--omp-threads=1", "worker.py")
    terminal.wait_for(workers_up(place), "the workers")
    found = pids(place)
    terminal.press(keys)
    terminal.wait_for(lambda: all((place.cwd / f"{rank}.log").exists() for rank in (0, 1)), "the signal")
    terminal.press(keys)
    assert terminal.wait(25) == 128 + getattr(signal, name), terminal.shown
    assert any(f"Received {name} again: killing the workers now" in line for line in terminal.lines()), terminal.shown
    assert len(terminal.lines()) == 2, terminal.shown
    assert gone(found)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_B47_a_second_interrupt_kills_at_once_and_any_number_leaves_nobody(job, number):
    one = job()
    one.send(number)
    one.wait_for_heard(number.name)
    one.send(number, signal.SIGTERM, number, signal.SIGHUP, number)
    assert one.wait(25) == 1, one.said()  # the workers ignore it, and have 30 s


# A batch system that repeats itself: B23.

def test_B23_a_repeated_sigterm_neither_shortens_nor_renews_the_time(job):
    """The workers hear one SIGTERM. They are killed when the first one's time is over, as more of them come."""
    one = job("--shutdown-timeout=3")
    began = time.monotonic()
    one.send(signal.SIGTERM)
    one.wait_for_heard("SIGTERM")
    while one.process.poll() is None and time.monotonic() - began < 60:
        one.send(signal.SIGTERM)
        time.sleep(0.1)
    assert time.monotonic() - began >= 3, "shortened"
    assert one.wait() == 1 and one.heard() == ["SIGTERM"], one.said()
    assert "the workers are being stopped already" in one.said()


def test_B23_the_scheduler_signals_the_whole_step(place):
    """Launcher and workers at once: no more than two SIGTERM reach a worker, and the save comes to its end."""
    place.write("saver.py", "import os, signal, time\nheard = []\n"
                "signal.signal(signal.SIGTERM, lambda n, f: heard.append(n))\nopen('up', 'w').write(str(os.getpid()))\n"
                "while not heard: time.sleep(0.01)\ntime.sleep(1)\nopen('saved', 'w').write(str(len(heard)))\n")
    process = place.start("saver.py")
    path = place.cwd / "up"
    processes.wait_until(lambda: path.exists() and path.read_text(), 60, "the worker")
    process.send_signal(signal.SIGTERM)
    os.kill(int(path.read_text()), signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 1 and int((place.cwd / "saved").read_text()) in (1, 2)


def test_B23_a_signal_that_its_sender_gives_to_all_is_not_passed_on(job):
    """Launcher and workers at once, as some batch systems do: with --no-forward each worker hears it once."""
    one = job("--no-forward", "--forward-signals=USR1", "--shutdown-timeout=100", leaves_on=["TERM"])
    for number in (signal.SIGUSR1, signal.SIGTERM):
        one.send(number)
        if number == signal.SIGTERM:
            one.wait_for_said("whose sender has told the workers too (--no-forward)")
        for pid in one.pids:
            os.kill(pid, number)
    assert one.wait() == 1, one.said()
    assert [one.heard(rank) for rank in (0, 1)] == [["SIGUSR1", "SIGTERM"]] * 2, one.said()
    assert "Sending process" not in one.said()


# Who it was: B48.

def test_B48_who_sent_the_signal_is_in_the_line(place, job):
    one = job(leaves_on=["TERM"])
    code = f"import os, time\nopen('/proc/self/comm', 'w').write('kill-tool')\nos.kill({one.process.pid}, 15)\ntime.sleep(60)"
    helper = subprocess.Popen([sys.executable, "-c", code])
    try:
        assert one.wait() == 1
    finally:
        helper.kill()
        helper.wait()
    line = next(line for line in one.said().splitlines() if "Received 15 death signal" in line)
    assert line.endswith(f"shutting down workers (sent by pid {helper.pid} (kill-tool, uid {os.getuid()}))"), line
    assert "SIGTERM" in one.said()


# While other nodes are waited for: B49.

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_B49_a_signal_ends_the_wait_for_other_nodes(place, number, backend):
    err = open(place.root / "err", "w+b")
    port = free_port()
    where = ["--master-port", port] if backend == "static" else ["--rdzv-backend=c10d",
                                                                  f"--rdzv-endpoint=127.0.0.1:{port}"]
    process = place.start("--nnodes=2", *where, "--no-python", "true", stderr=err, env={"LOGLEVEL": "INFO"})
    said = place.root / "err"
    processes.wait_until(lambda: "Rendezvous'ing worker group" in said.read_text(), 60, "the rendezvous")
    process.send_signal(number)
    assert process.wait(25) == 1, said.read_text()
    assert f"Received {int(number)} death signal, leaving the rendezvous" in said.read_text()


# A run that ends by request.

@pytest.mark.parametrize("options,code", [([], 1), (["--requeue-exit-code=99"], 99), (["--exit-code=worker"], 143),
                                          (["--exit-code=worker", "--requeue-exit-code=99"], 99)])
def test_a_run_that_ends_by_request_is_not_restarted_and_has_its_own_code(job, options, code):
    one = job("--max-restarts=5", "--no-restart-on=exit:2", *options, leaves_on=["TERM"])
    one.send(signal.SIGTERM)
    assert one.wait() == code, one.said()
    assert "restart" not in one.said()


def test_a_failure_has_no_requeue_code(place):
    assert place.run("--requeue-exit-code=99", "--no-python", "false").code == 1


# Suspending.

def stopped(one):
    processes.wait_until(lambda: one.states() == ["T"] * 3, 30, lambda: f"all stopped: {one.states()}")


def running(one):
    processes.wait_until(lambda: "T" not in one.states(), 30, lambda: f"all running: {one.states()}")


def test_a_suspended_launcher_suspends_its_workers_and_continues_them(job):
    one = job()
    for _ in range(3):
        one.send(signal.SIGTSTP)
        stopped(one)
        one.send(signal.SIGCONT)
        running(one)
    assert one.finish() == 0, one.said()
    assert one.said() == ""


def test_ctrl_z_and_fg_work_on_a_terminal(place):
    """Ctrl+Z on the launcher's terminal; the parent, as a shell would, sees it stop and continues it."""
    place.write("worker.py", WORKER)
    terminal = Terminal(place, "--nproc-per-node=2", "--omp-threads=1", "worker.py")
    terminal.wait_for(workers_up(place), "the workers")
    terminal.press(b"\x1a")
    _, status = os.waitpid(terminal.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    terminal.wait_for(lambda: {processes.stat_fields(pid)[0] for pid in pids(place)} == {b"T"}, "stopped workers")
    os.killpg(terminal.pid, signal.SIGCONT)
    terminal.wait_for(lambda: b"T" not in [processes.stat_fields(pid)[0] for pid in pids(place)], "running workers")
    (place.cwd / "end").touch()
    assert terminal.wait() == 0, terminal.shown


def test_a_suspended_job_hears_the_signals_that_end_it(job):
    """As scancel does: SIGCONT, then SIGTERM; or the other way round."""
    for order in ((signal.SIGCONT, signal.SIGTERM), (signal.SIGTERM, signal.SIGCONT)):
        one = job(leaves_on=["TERM"])
        one.send(signal.SIGTSTP)
        stopped(one)
        one.send(*order)
        assert one.wait() == 1 and one.heard() == ["SIGTERM"], one.said()
        for path in one.place.cwd.glob("?.*"):
            path.unlink()


def test_a_suspended_job_dies_with_its_launcher(job):
    one = job()
    one.send(signal.SIGTSTP)
    stopped(one)
    one.send(signal.SIGKILL)
    one.process.wait(30)
    processes.wait_until(lambda: gone(one.pids), 30, "the end of the workers")


def test_workers_that_are_being_stopped_are_not_suspended(job):
    one = job("--shutdown-timeout=2")
    one.send(signal.SIGTERM)
    one.wait_for_heard("SIGTERM")
    one.send(signal.SIGTSTP)
    assert one.wait() == 1, one.said()


# Terminals and stdin.

def test_the_launcher_writes_to_a_terminal_that_stops_background_jobs(place):
    """`stty tostop`, and the launcher in the background: it is not stopped by its own words."""
    program = ("import os, signal, subprocess, sys, termios\n"
               "mode = termios.tcgetattr(0); mode[3] |= termios.TOSTOP; termios.tcsetattr(0, termios.TCSANOW, mode)\n"
               "child = subprocess.Popen(sys.argv[1:], preexec_fn=os.setpgrp)\n"
               "_, status = os.waitpid(child.pid, os.WUNTRACED)\n"
               "print('stopped' if os.WIFSTOPPED(status) else f'ended {os.waitstatus_to_exitcode(status)}')\n"
               "os.WIFSTOPPED(status) and child.kill()\n")
    terminal = Terminal.__new__(Terminal)
    terminal.pid, terminal.fd = pty.fork()
    terminal.shown = b""
    if terminal.pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", program, place.binary, "--nproc-per-node=2", "--no-python",
                                   "sh", "-c", "exit 3"], place.env)
    assert terminal.wait() == 0, terminal.shown
    assert terminal.shown.decode().splitlines()[-1] == "ended 1", terminal.shown


def test_B40_one_rank_gets_stdin_and_the_others_none(place):
    place.write("r.sh", "#!/bin/sh\necho $RANK: $(cat)\n")
    read, write = os.pipe()
    os.write(write, b"hello\n")
    os.close(write)
    result = place.run("--stdin=1", "--nproc-per-node=3", "--omp-threads=1", "--no-python", "./r.sh", stdin=read)
    os.close(read)
    assert result.code == 0 and result.lines == ["0:", "1: hello", "2:"], result


def test_B40_by_default_all_share_stdin(place):
    place.write("r.sh", "#!/bin/sh\nread -r line; echo $line\n")
    read, write = os.pipe()
    os.write(write, b"a\nb\n")
    os.close(write)
    result = place.run("--nproc-per-node=2", "--omp-threads=1", "--no-python", "./r.sh", stdin=read)
    os.close(read)
    assert result.code == 0 and result.lines == ["a", "b"], result


def test_B40_a_prompt_on_one_rank_works_on_a_terminal(place):
    place.write("p.py", "import os\nif os.environ['RANK'] == '1':\n    print('got', input('name? '), flush=True)\n")
    terminal = Terminal(place, "--stdin=1", "--nproc-per-node=2", "--omp-threads=1", "p.py")
    terminal.wait_for(lambda: b"name? " in terminal.shown, "the prompt")
    terminal.press(b"ann\n")
    assert terminal.wait() == 0, terminal.shown
    assert "got ann" in terminal.lines(), terminal.shown
