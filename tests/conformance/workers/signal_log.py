# SPDX-License-Identifier: BSD-3-Clause
"""Worker that waits for signals: `log` writes the first one down and exits 0, `ignore` writes each down and stays,
`die` keeps the default actions, `exit N` leaves with N after half a second."""
import json
import os
import signal
import sys
import time

mode = sys.argv[1].split("|")
mode = mode[min(int(os.environ["LOCAL_RANK"]), len(mode) - 1)]
base = f"{os.environ['PROBE_DIR']}/{os.environ['TORCHELASTIC_RESTART_COUNT']}.{os.environ['RANK']}"


def write_down(number, frame):
    with open(base + ".signals", "a") as log:
        log.write(f"{signal.Signals(number).name}\n")
    if mode == "log":
        os._exit(0)


for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1"):
    signal.signal(getattr(signal, name), signal.SIG_DFL if mode == "die" else write_down)
with open(base + ".part", "w") as file:
    start = int(open("/proc/self/stat", "rb").read().rpartition(b")")[2].split()[19])
    json.dump({"pid": os.getpid(), "start": start, "ppid": os.getppid()}, file)
os.rename(base + ".part", base + ".json")
if mode.startswith("exit "):
    others = int(os.environ["LOCAL_WORLD_SIZE"])
    limit = time.monotonic() + 20
    while len([name for name in os.listdir(os.environ["PROBE_DIR"]) if name.endswith(".json")]) < others:
        if time.monotonic() > limit:
            sys.exit(99)
        time.sleep(0.02)
    sys.exit(int(mode.split()[1]))
limit = time.monotonic() + 60
while time.monotonic() < limit:
    time.sleep(0.1)
