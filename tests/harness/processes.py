# SPDX-License-Identifier: BSD-3-Clause
"""Facts about processes from /proc. A process is named by pid and start time, as pids are used again."""
import os
import signal
import time


def stat_fields(pid):
    """The fields of /proc/PID/stat after the name, or None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def start_time(pid):
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def is_running(pid, started):
    """Whether that very process still runs; a zombie does not."""
    fields = stat_fields(pid)
    return bool(fields) and int(fields[19]) == started and fields[0] not in (b"Z", b"X")


def children(pid):
    """Pids of the direct children, over all threads of the process."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += [int(word) for word in file.read().split()]
        except FileNotFoundError:
            continue
    return found


def wait_until(condition, seconds, what):
    """Polls until condition() is true and returns its value; fails loudly after `seconds`. `what` is text, or a function
    that makes it then."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds} s still waiting for {what() if callable(what) else what}")
        time.sleep(0.01)


def end(pid, started):
    """SIGKILL for one process that a test has started, if it is still that process."""
    if is_running(pid, started):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def descendants(pid):
    """(pid, start time) of all that came from a process and still hang on it, deepest last."""
    found, waiting = [], [pid]
    while waiting:
        try:
            below = children(waiting.pop())
        except FileNotFoundError:
            continue
        found += [(child, start_time(child)) for child in below]
        waiting += below
    return [(child, started) for child, started in found if started is not None]


def end_tree(process):
    """SIGKILL for a subprocess.Popen that hangs and for all below it; they may be in sessions of their own."""
    below = descendants(process.pid) if process.poll() is None else []
    process.kill()
    process.wait()
    for child, started in below:
        end(child, started)
