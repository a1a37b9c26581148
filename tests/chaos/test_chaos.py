# SPDX-License-Identifier: BSD-3-Clause
"""Random kills among agent, guards and workers, while workers do all they can to leave somebody behind: survivors must
be 0. CPPRUN_LONG=1 for the full count, CPPRUN_SEED for one round."""
import collections
import os
import random
import signal
import subprocess
import time

import pytest
from harness import containment, launchers, processes

ROUNDS = 1000 if os.environ.get("CPPRUN_LONG") == "1" else 12
WORKERS = 2
BOUND_SECONDS = 30  # it takes milliseconds; a bound against hanging

DEAF = 'trap "" TERM INT HUP QUIT USR1 USR2; while :; do sleep 1000; done'
IN_THE_SESSION = {
    "plain": "sleep 1000 &",
    "deaf": f"sh -c '{DEAF}' &",
    "double fork": f"(sh -c '{DEAF}' &)",
    "thirty": "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do "
              "sleep 1000 & done",
}
ON_ITS_OWN = {
    "own session": f"setsid sh -c '{DEAF}' &",
    "double fork, own session": f"(setsid sh -c '{DEAF}' &)",
    "twice detached": "(setsid sh -c '(setsid sleep 1000 &)' &)",
    "forks all the time": "(setsid sh -c 'while :; do sleep 0.02; done' &)",
    "own terminal": "(setsid script -qfc 'sleep 1000' /dev/null < /dev/null > /dev/null 2>&1 &)",
}
ENDS = ["sleep 1000", "exec sleep 1000", f"{DEAF}", "sleep 0.1; exit 1", "sleep 0.1; exit 0"]


class Round:
    """One launch, with the kills that its seed says."""

    def __init__(self, tier, seed, folder, wrapper, kinds):
        self.tier, self.seed, self.chance = tier, seed, random.Random(f"{tier} {seed}")
        self.cookie = f"chaos-{os.getpid()}-{tier}-{seed}"
        self.folder, self.wrapper = folder, wrapper
        self.kinds = self.chance.sample(sorted(kinds), 3)
        self.end = self.chance.choice(ENDS)
        self.killed = []

    def run(self):
        script = self.folder / "w.sh"
        script.write_text("#!/bin/sh\n" + "\n".join(({**IN_THE_SESSION, **ON_ITS_OWN})[kind] for kind in self.kinds)
                          + f'\necho up > "{self.folder}/up$RANK"\n{self.end}\n')
        script.chmod(0o755)
        for rank in range(WORKERS):
            (self.folder / f"up{rank}").unlink(missing_ok=True)
        environment = launchers.minimal_environment(self.folder, self.folder) | {
            containment.COOKIE: self.cookie, "CPPRUN_CONTAINMENT": self.tier}
        self.launcher = subprocess.Popen(
            [*self.wrapper, launchers.cpprun_binary(), f"--nproc-per-node={WORKERS}", "--shutdown-timeout=1",
             f"--max-restarts={self.chance.choice([0, 1])}", "--no-python", script], env=environment,
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        self._wait_for_a_moment()
        began = time.monotonic()
        for _ in range(self.chance.choice([1, 2]) if self.tier == "cgroup" else 1):
            self._kill_one()
            if self.tier == "cgroup":
                time.sleep(self.chance.choice([0, 0, self.chance.uniform(0, 0.1)]))
        self._end()
        if self.launcher.returncode == 0:
            return 0.0  # what a run leaves that ends well runs on
        processes.wait_until(lambda: not containment.survivors(self.cookie), BOUND_SECONDS,
                             lambda: f"the end of {self._describe()}")
        return time.monotonic() - began

    def _wait_for_a_moment(self):
        if self.chance.random() < 0.4:
            time.sleep(self.chance.uniform(0, 0.1))
            return
        ups = [self.folder / f"up{rank}" for rank in range(WORKERS)]
        deadline = time.monotonic() + BOUND_SECONDS
        while self.launcher.poll() is None and not all(up.exists() for up in ups) and time.monotonic() < deadline:
            time.sleep(0.005)

    def _roles(self):
        """Pids by role, as far as they are there already."""
        roles = collections.defaultdict(list)
        if self.launcher.poll() is not None:
            return roles
        roles["agent"] = [self.launcher.pid]
        for pid in self._children(self.launcher.pid):
            try:
                guard = open(f"/proc/{pid}/comm").read().strip() == "worker-guard"
            except OSError:
                continue
            roles["guard" if guard else "worker"].append(pid)
            if guard and self.tier == "guard":
                roles["worker"] += self._children(pid)[:1]
        return roles

    @staticmethod
    def _children(pid):
        try:
            return processes.children(pid)
        except OSError:
            return []

    def _kill_one(self):
        roles = self._roles()
        if not roles:
            return
        role = self.chance.choice(sorted(roles))
        victim = self.chance.choice(roles[role] or [self.launcher.pid])
        try:
            os.kill(victim, signal.SIGKILL)
            self.killed.append(role)
        except ProcessLookupError:
            pass

    def _end(self):
        """Whoever has not ended by then is interrupted by hand, impatiently."""
        try:
            self.launcher.wait(self.chance.choice([0.05, 0.2]))
            return
        except subprocess.TimeoutExpired:
            pass
        self.launcher.send_signal(self.chance.choice([signal.SIGTERM, signal.SIGINT]))
        time.sleep(0.02)
        for _ in range(2):
            self.launcher.send_signal(signal.SIGINT)
        self.launcher.wait(BOUND_SECONDS)

    def _describe(self):
        pids = ",".join(map(str, containment.survivors(self.cookie)))
        listing = subprocess.run(["ps", "-o", "pid,ppid,pgid,sid,stat,args", "-p", pids], capture_output=True, text=True)
        return f"seed {self.seed} ({self.tier}; {self.kinds}; {self.end}; killed: {self.killed})\n{listing.stdout}"


@pytest.mark.parametrize("tier", containment.TIERS)
def test_random_kills_leave_nobody_behind(tier, tmp_path, request, capsys):
    """In the group tier with those descendants alone that stay in the worker's session."""
    wrapper = containment.tier_wrapper(tier, tmp_path, request)
    kinds = IN_THE_SESSION if tier == "group" else {**IN_THE_SESSION, **ON_ITS_OWN}
    given = os.environ.get("CPPRUN_SEED")
    bystander = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"], start_new_session=True,
                                 env=os.environ | {containment.COOKIE: f"bystander-{os.getpid()}-{tier}"})
    killed, slowest = collections.Counter(), 0.0
    try:
        for seed in [int(given)] if given else range(ROUNDS):
            one = Round(tier, seed, tmp_path, wrapper, kinds)
            try:
                slowest = max(slowest, one.run())
            finally:
                containment.end_survivors(one.cookie)
            killed[" + ".join(one.killed) or "nobody in time"] += 1
        assert len(containment.survivors(f"bystander-{os.getpid()}-{tier}")) == 2
    finally:
        os.killpg(bystander.pid, signal.SIGKILL)
        bystander.wait()
    with capsys.disabled():
        print(f"\n{tier}: {sum(killed.values())} rounds, 0 survivors, slowest {slowest:.2f} s; killed: "
              + ", ".join(f"{what} {count}" for what, count in killed.most_common()))
