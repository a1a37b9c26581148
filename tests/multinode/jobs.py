# SPDX-License-Identifier: BSD-3-Clause
"""Jobs whose workers do nothing but wait to be told how to end, started by cpprun or the real torchrun."""
import base64
import dataclasses
import pathlib
import pickle
import time

import pytest
from harness import launchers, processes
from harness.store_client import StoreClient

WORKER_SECONDS_MAX = 300
# A worker writes down its environment as HOST.LOCAL_RANK.N, N counting its starts there, and ends with the code that it
# finds in HOST.LOCAL_RANK.N.exit or, for all, in exit.
WORKER = f"""#!/bin/sh
read -r host < /proc/sys/kernel/hostname
n=0
until (set -C; : > "$JOB/$host.$LOCAL_RANK.$n") 2> /dev/null; do n=$((n + 1)); done
me=$JOB/$host.$LOCAL_RANK.$n
{{ echo "PID=$$"; env; }} > "$me.tmp"
mv "$me.tmp" "$me.env"
turns=0
until [ -e "$me.exit" ] || [ -e "$JOB/exit" ]; do
    sleep 0.05
    turns=$((turns + 1))
    [ $turns -lt {WORKER_SECONDS_MAX * 20} ] || exit 99
done
told=$JOB/exit
[ ! -e "$me.exit" ] || told=$me.exit
read -r code < "$told"
exit "$code"
"""


CLOCK = """
import datetime, sys
import torch.distributed.elastic.rendezvous.dynamic_rendezvous as rendezvous
ahead = datetime.timedelta(seconds=int(sys.argv.pop(1)))
class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) + ahead
rendezvous.datetime = Clock
from torch.distributed.run import main
main()
"""


@dataclasses.dataclass
class Worker:
    """One start of a worker."""
    host: str
    local_rank: int
    start: int  # how many there were before it in this place
    env: dict
    folder: pathlib.Path
    began: float  # wall clock

    def __post_init__(self):
        self.pid = int(self.env["PID"])
        self.started = processes.start_time(self.pid)

    @property
    def running(self):
        return self.started is not None and processes.is_running(self.pid, self.started)

    @property
    def rank(self):
        return int(self.env["RANK"])

    @property
    def world(self):
        return int(self.env["WORLD_SIZE"])

    @property
    def master(self):
        return self.env["MASTER_ADDR"], self.env["MASTER_PORT"]

    def finish(self, code=0):
        _write(self.folder / f"{self.host}.{self.local_rank}.{self.start}.exit", code)

    def __repr__(self):
        return (f"{self.host}.{self.local_rank}.{self.start}: rank {self.rank} of {self.world}, "
                f"{'running' if self.running else 'ended'}")


def _write(path, code):
    path.with_suffix(".new").write_text(f"{code}\n")
    path.with_suffix(".new").rename(path)


class Job:
    """One job: its workers, and the agents that were started for it."""

    def __init__(self, network, folder):
        self.network, self.folder, self.agents, self._seen = network, folder, [], {}
        folder.mkdir()
        self.script = folder / "worker"
        self.script.write_text(WORKER)
        self.script.chmod(0o755)

    # Agents.

    def start(self, kind, host, *options, env=None, program=None):
        """An agent on a host. `kind` is cpprun or torchrun; `program` replaces the launcher and its first words."""
        words = program or [launchers.cpprun_binary() if kind == "cpprun" else launchers.torchrun_script()]
        agent = host.start(*words, *options, "--no-python", self.script, env={"JOB": self.folder} | (env or {}))
        self.agents.append(agent)
        return agent

    def static(self, kind, host, rank, *options, nodes=2, head=None, **fields):
        head = head or self.network.hosts[0]
        return self.start(kind, host, f"--nnodes={nodes}", f"--node-rank={rank}", f"--master-addr={head.address}",
                          "--master-port=29500", *options, **fields)

    def c10d(self, kind, host, *options, nodes="2", head=None, run_id="job1", conf="", **fields):
        head = head or self.network.hosts[0]
        conf = ",".join(filter(None, ("last_call_timeout=2", conf)))
        return self.start(kind, host, f"--nnodes={nodes}", "--rdzv-backend=c10d",
                          f"--rdzv-endpoint={head.address}:29400", f"--rdzv-id={run_id}", f"--rdzv-conf={conf}",
                          *options, **fields)

    def torchrun_with_clock(self, seconds):
        """`program` for a torchrun whose rendezvous sees a clock that is so much ahead."""
        script = self.folder / "torchrun_with_clock.py"
        script.write_text(CLOCK)
        return [launchers.python_with_torch(), script, seconds]

    # Workers.

    def workers(self):
        """All starts so far."""
        for path in self.folder.glob("*.env"):
            if path.name not in self._seen:
                host, local_rank, start = path.stem.rsplit(".", 2)
                env = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
                self._seen[path.name] = Worker(host, int(local_rank), int(start), env, self.folder,
                                               path.stat().st_mtime)
        return [worker for _, worker in sorted(self._seen.items())]

    def wait_for_workers(self, *hosts, start=0, seconds=60, local_rank=0):
        """The workers of these hosts: `start` is which start of each, one number for all or one for each. Fails at once
        when a host has no agent left that could start one."""
        starts = [start] * len(hosts) if isinstance(start, int) else start
        wanted = [(host.name, number) for host, number in zip(hosts, starts, strict=True)]

        def find():
            # Who has ended is asked first: the workers of a living agent may come in between.
            hopeless = [host for host in hosts if not any(a.host is host and a.code is None for a in self.agents)]
            found = {(worker.host, worker.start): worker for worker in self.workers() if worker.local_rank == local_rank}
            if all(key in found for key in wanted):
                return [found[key] for key in wanted]
            for host in hopeless:
                assert any(key in found for key in wanted if key[0] == host.name), (
                    f"no agent is left on {host}; want {wanted}, have {self.workers()}, agents: {self.agents}")
            return None
        return processes.wait_until(find, seconds, lambda: f"{wanted}; have {self.workers()}; agents: {self.agents}")

    def running(self):
        return [worker for worker in self.workers() if worker.running]

    def finish(self, code=0):
        """Tells all workers, those to come too."""
        _write(self.folder / "exit", code)

    def wait(self, seconds=60):
        """The exit statuses of all agents that this job has, in the order of their start."""
        deadline = time.monotonic() + seconds
        return [agent.wait(max(0.1, deadline - time.monotonic())) for agent in self.agents]

    # The store.

    def store_of(self, worker):
        """A bystander's connection to the store that a worker uses; names are the hosts'."""
        address, port = worker.master
        named = {host.fqdn: host.address for host in self.network.hosts}
        return StoreClient(self.network.hosts[-1], named.get(address, address), int(port))

    def store(self, host=None, port=29400):
        """A bystander's connection to the store on the first host, or another, as soon as it listens."""
        host = host or self.network.hosts[0]

        def connect():
            try:
                return StoreClient(self.network.hosts[-1], host.address, port)
            except ConnectionRefusedError:
                assert any(agent.code is None for agent in self.agents), self.agents
                return None
        return processes.wait_until(connect, 30, lambda: f"a store on {host}; {self.agents}")

    def state(self, store, run_id="job1"):
        """The shared state as torch's object; None while there is none."""
        import torch.distributed.elastic.rendezvous.dynamic_rendezvous  # noqa: F401 - for the unpickling
        value = store.get(f"torch.rendezvous.{run_id}")
        return None if value in (None, b"Y2FuaW1hZGFt") else pickle.loads(base64.b64decode(value))


def run_together(workers):
    """Asserts that these workers, and they alone, are one world: ranks without gaps, one address for all."""
    assert sorted(worker.rank for worker in workers) == list(range(len(workers))), workers
    assert {worker.world for worker in workers} == {len(workers)}, workers
    assert len({worker.master for worker in workers}) == 1, [worker.master for worker in workers]


def wait_until_ended(workers, seconds):
    processes.wait_until(lambda: not any(worker.running for worker in workers), seconds, lambda: f"the end of {workers}")


def kinds(*rows):
    """A parameter `kinds`: which launcher each agent is, c for cpprun and t for torchrun, as in "ct"."""
    names = {"c": "cpprun", "t": "torchrun"}
    return pytest.mark.parametrize("kinds", [
        pytest.param([names[letter] for letter in row], id=row) for row in rows])
