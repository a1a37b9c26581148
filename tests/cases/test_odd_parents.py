# SPDX-License-Identifier: BSD-3-Clause
"""Started by a parent that leaves things in an odd state, or by none at all: user case B41, and what is like it."""
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from harness import processes
from harness.ports import free_port

UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@pytest.fixture(scope="module")
def _pid_namespaces():
    made = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no pid namespace of its own: {made.stderr.strip()}")


@pytest.mark.usefixtures("_pid_namespaces")
def test_B41_as_a_containers_first_process_it_reaps_strangers(place):
    """Orphans that end before the workers do become zombies only for as long as it takes to reap them."""
    place.write("w.sh", """#!/bin/sh
[ "$(cat /proc/1/comm)" = cpprun ] || { echo "pid 1 is $(cat /proc/1/comm)"; exit 4; }
for i in 1 2 3 4 5; do (setsid sh -c 'exit 3' &) ; done
for turn in $(seq 200); do
    left=$(cat /proc/[0-9]*/stat 2> /dev/null | awk '$4 == 1 && $3 == "Z"' | wc -l)
    [ "$turn" -gt 5 ] && [ "$left" = 0 ] && exit 0
    sleep 0.1
done
echo "zombies: $left"
exit 5
""")
    result = place.run("--no-python", "./w.sh", wrapper=UNSHARE, seconds=90)
    assert (result.code, result.stdout) == (0, ""), result


@pytest.mark.usefixtures("_pid_namespaces")
@pytest.mark.parametrize("how", ["worker", "stranger"])
def test_B41_as_the_first_process_it_hears_signals_and_has_the_usual_exit_codes(place, how):
    """From inside as from outside; a worker's end is no stranger's."""
    place.write("w.sh", "#!/bin/sh\ntrap 'echo told; exit 0' TERM\n(sleep 0.1; exit 7) &\n"
                + ("kill -TERM 1\n" if how == "worker" else "touch up\n") + "while :; do sleep 0.1; done\n")
    if how == "worker":
        result = place.run("--exit-code=worker", "--no-python", "./w.sh", wrapper=UNSHARE)
        assert result.code == 143 and result.stdout == "told\n", result
        return
    process = place.start("--exit-code=worker", "--no-python", "./w.sh", wrapper=UNSHARE)
    processes.wait_until(lambda: (place.cwd / "up").exists(), 30, "the worker")
    (inner,) = processes.children(process.pid)
    os.kill(inner, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err


@pytest.mark.usefixtures("_pid_namespaces")
def test_B41_as_the_first_process_it_fails_with_the_workers_failure(place):
    result = place.run("--exit-code=worker", "--max-restarts=1", "--no-python", "sh", "-c", "(sleep 0 &); exit 9",
                       wrapper=UNSHARE)
    assert result.code == 9 and "9/" not in result.stdout, result


@pytest.mark.usefixtures("_pid_namespaces")
def test_as_the_first_process_a_suspension_stops_the_workers_alone(place):
    # No shell: one that is stopped within a vfork shows D.
    place.write("w.py", "import os, time\nopen('pid', 'w').close()\nwhile not os.path.exists('end'): time.sleep(0.1)\n")
    process = place.start("w.py", wrapper=UNSHARE)
    processes.wait_until(lambda: (place.cwd / "pid").exists(), 30, "the worker")
    (launcher,) = processes.children(process.pid)
    below = [pid for pid, _ in processes.descendants(launcher)]  # the worker, and guards
    states = lambda: [processes.stat_fields(pid)[0] for pid in (launcher, *below)]
    os.kill(launcher, signal.SIGTSTP)
    processes.wait_until(lambda: states()[0] == b"S" and states().count(b"T") == 1, 30, lambda: f"a stopped worker: {states()}")
    os.kill(launcher, signal.SIGCONT)
    processes.wait_until(lambda: b"T" not in states(), 30, lambda: f"a running worker: {states()}")
    (place.cwd / "end").touch()
    assert process.wait(60) == 0


CLOSED = [("0", "<&-"), ("1", ">&-"), ("2", "2>&-"), ("all", "<&- >&- 2>&-")]


@pytest.mark.parametrize("redirection", [row[1] for row in CLOSED], ids=[row[0] for row in CLOSED])
def test_closed_descriptors_become_dev_null(place, redirection):
    """No file of ours takes their numbers: what a worker writes there would end up in it."""
    place.write("w.py", "import os\nlinks = [os.readlink(f'/proc/self/fd/{fd}') for fd in range(3)]\n"
                "open('fds', 'w').write(chr(10).join(links))\nprint('out', flush=True)\nos.write(2, b'err')\n")
    result = place.run("--capture=off", "w.py", wrapper=("sh", "-c", f'exec "$@" {redirection}', "sh"))
    assert result.code == 0, result
    links = (place.cwd / "fds").read_text().splitlines()
    for number, closed in enumerate(("<&-", " >&-", "2>&-")):
        if closed in f" {redirection}":
            assert links[number] == "/dev/null", links


def test_signals_that_came_blocked_are_heard_and_free_in_workers(place):
    place.write("w.py", "import os, signal, time\nassert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()\n"
                "signal.signal(signal.SIGTERM, lambda n, f: os._exit(0))\nopen('up', 'w').close()\ntime.sleep(60)\n")
    block = ("import os, signal, sys\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
             "os.execv(sys.argv[1], sys.argv[1:])")
    process = place.start("--exit-code=worker", "w.py", wrapper=(sys.executable, "-c", block))
    processes.wait_until(lambda: (place.cwd / "up").exists() or process.poll() is not None, 60, "the worker")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err


@pytest.mark.parametrize("limit,enough", [(10, False), (16, None), (64, True)])
def test_few_descriptors_are_enough_or_are_named(place, limit, enough):
    """`ulimit -n`, hard. None: either may be."""
    result = place.run("--nproc-per-node=2", "--omp-threads=1", "--no-python", "true",
                       wrapper=("sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"))
    if enough or result.code == 0:
        assert result.code == 0 and enough is not False, result
    else:
        assert result.code == 1 and re.search("Too many open files|descriptor", result.stderr), result
        assert "terminate called" not in result.stderr, result


def test_few_processes_are_named(place):
    """`ulimit -u` does not bind root: as another user, if the test may become one."""
    if os.geteuid() != 0:
        pytest.skip("becomes another user, whose processes are counted: needs root")
    binary = place.root / "cpprun"
    shutil.copy(place.binary, binary)
    for folder in (place.root, place.cwd, place.tmp, *place.root.parents[:3]):
        os.chmod(folder, 0o777 if folder in (place.root, place.cwd, place.tmp) else 0o755)
    limited = ("import os, resource, sys\nos.setgroups([]); os.setgid(54321); os.setuid(54321)\n"
               "resource.setrlimit(resource.RLIMIT_NPROC, (3, 3))\nos.execv(sys.argv[1], sys.argv[1:])")
    result = place.run("--nproc-per-node=8", "--omp-threads=1", "--no-python", "sleep", "60", binary=str(binary),
                       wrapper=(sys.executable, "-c", limited), seconds=50)
    assert result.code == 1, result
    assert "Resource temporarily unavailable" in result.stderr and "terminate called" not in result.stderr, result


def test_without_a_controlling_terminal_and_from_a_vfork_it_works(place):
    """subprocess starts by vfork; Place makes a session of its own."""
    assert subprocess._USE_VFORK
    assert place.run("--nproc-per-node=2", "--omp-threads=1", "--no-python", "true").code == 0


def test_descriptors_of_the_agent_do_not_reach_the_workers(place):
    result = place.run("--health-port=" + str(free_port()), "--max-restarts=1", "-t", "1", "--log-dir=L", "--no-python",
                       "sh", "-c", "ls /proc/self/fd | wc -l; exit $((1 - TORCHELASTIC_RESTART_COUNT))")
    # 0, 1, 2, and the one by which ls reads.
    assert result.code == 0 and [line.split(":")[1] for line in result.lines] == ["4", "4"], result
