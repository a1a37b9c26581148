# SPDX-License-Identifier: BSD-3-Clause
"""Worker that writes down how it was started (one JSON file in $PROBE_DIR) and prints its arguments.

$PROBE_DO says what follows: nothing (exit 0), `exit N`, `sleep`, or `first N`: rank 0 exits with N once all have
written, the others sleep. Bytes travel as surrogates."""
import json
import os
import resource
import signal
import sys
import time


def status_line(name):
    with open("/proc/self/status") as status:
        return next(line.split(":", 1)[1].strip() for line in status if line.startswith(name + ":"))


def signals(mask):
    value = int(mask, 16)
    return [n for n in range(1, 65) if value >> (n - 1) & 1]


def parent():
    """Name and parent of our parent."""
    try:
        with open(f"/proc/{os.getppid()}/stat") as stat:
            name, rest = stat.read().split("(", 1)[1].rsplit(")", 1)
            return [name, int(rest.split()[1])]
    except FileNotFoundError:
        return None


with open("/proc/self/cmdline", "rb") as cmdline:
    argv = [os.fsdecode(word) for word in cmdline.read().split(b"\0")[:-1]]
with open("/proc/self/environ", "rb") as environ:
    environment = dict(os.fsdecode(entry).split("=", 1) for entry in environ.read().split(b"\0") if b"=" in entry)
descriptors = []
for name in os.listdir("/proc/self/fd"):
    try:
        os.readlink(f"/proc/self/fd/{name}")
        descriptors.append(int(name))
    except FileNotFoundError:
        pass  # the one that the listing itself used
umask = os.umask(0o022)
os.umask(umask)
record = {
    "argv": argv,
    "sys_argv": sys.argv,
    "sys_path_0": sys.path[0],
    "env": environment,
    "pid": os.getpid(),
    "start": int(open("/proc/self/stat", "rb").read().rpartition(b")")[2].split()[19]),
    "ppid": os.getppid(),
    "parent": parent(),
    "proc": {
        "session_leader": os.getsid(0) == os.getpid(),
        "group_leader": os.getpgid(0) == os.getpid(),
        "descriptors": sorted(descriptors),
        "blocked": signals(status_line("SigBlk")),
        # Python itself ignores SIGPIPE and SIGXFSZ and handles SIGINT, whatever it inherited.
        "ignored": [n for n in signals(status_line("SigIgn")) if n not in (signal.SIGPIPE, signal.SIGXFSZ)],
        "cwd": os.getcwd(),
        "umask": f"{umask:04o}",
        "nice": os.nice(0),
        "affinity": sorted(os.sched_getaffinity(0)),
        "nofile": list(resource.getrlimit(resource.RLIMIT_NOFILE)),
        "terminal": sys.stdin.isatty() if sys.stdin else None,
    },
}
attempt = environment.get("TORCHELASTIC_RESTART_COUNT", "x")
path = f"{environment['PROBE_DIR']}/{attempt}.{environment.get('RANK', 'x')}"
with open(path + ".part", "w") as file:
    json.dump(record, file)
os.rename(path + ".part", path + ".json")

# In one write: with -u print() writes word by word, and the workers share one pipe.
sys.stdout.write(" ".join(["argv", *[ascii(word) for word in sys.argv[1:]]]) + "\n")
sys.stdout.flush()
what, _, number = environment.get("PROBE_DO", "").partition(" ")
if what == "exit":
    sys.exit(int(number))
if what == "first" and environment["RANK"] == "0":
    mine = [f"{environment['PROBE_DIR']}/{attempt}.{rank}.json" for rank in range(int(environment["WORLD_SIZE"]))]
    limit = time.monotonic() + 30
    while not all(map(os.path.exists, mine)) and time.monotonic() < limit:
        time.sleep(0.01)
    sys.exit(int(number))
if what in ("sleep", "first"):
    time.sleep(60)
