# SPDX-License-Identifier: BSD-3-Clause
"""Jobs under a real Slurm of three nodes: the scripts of examples/slurm, cancelled, warned, and with a node killed.

CPPRUN_SLURM_CLUSTER names a program that makes `DIR/slurm.conf` and starts the daemons upon `start DIR 3`, and ends them
upon `stop DIR`; the nodes may all be this machine."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import uuid

import pytest
from harness import launchers, processes

NODES = 3
EXAMPLES = launchers.REPOSITORY / "examples/slurm"
# Signs up as up.RANK. Upon SIGTERM it saves, which takes a moment, and ends.
WORKER = """#!/bin/sh
trap 'sleep 1; touch "$FOLDER/saved.$RANK"; exit 0' TERM
echo $$ $WORLD_SIZE > "$FOLDER/up.$RANK"
until [ -e "$FOLDER/end" ]; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The environment in which Slurm's commands find it."""
    tool = os.environ.get("CPPRUN_SLURM_CLUSTER")
    if not tool:
        pytest.skip("CPPRUN_SLURM_CLUSTER names no program that starts a Slurm")
    missing = [name for name in ("slurmctld", "slurmd", "srun", "sbatch", "munged") if not shutil.which(name)]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and Slurm; missing: {missing}")
    folder = tmp_path_factory.mktemp("slurm")
    started = subprocess.run([tool, "start", folder, str(NODES)], capture_output=True, text=True, timeout=120)
    try:
        if started.returncode != 0:
            pytest.fail(f"{tool} start: {started.stdout}{started.stderr}")
        yield {"SLURM_CONF": str(folder / "slurm.conf")}
    finally:
        subprocess.run([tool, "stop", folder], timeout=60)


class Batch:
    """One batch job, whose processes all carry a cookie."""

    def __init__(self, cluster, folder):
        self.folder, self.cookie, self.number = folder, f"cpprun-test-{uuid.uuid4()}", None
        (folder / "bin").mkdir()
        (folder / "bin/cpprun").symlink_to(launchers.cpprun_binary())
        (folder / "worker").write_text(WORKER)
        (folder / "worker").chmod(0o755)
        self.env = launchers.minimal_environment(folder, folder, [folder / "bin"]) | cluster | {
            "FOLDER": str(folder), "COOKIE": self.cookie, "HEAD_ADDRESS": "127.0.0.1", "WORKERS_PER_NODE": "2", "JOIN_TIMEOUT": "30",
            "OMP_NUM_THREADS": "1"}
        self.env["PATH"] += ":/usr/sbin:/sbin"

    def command(self, *words, seconds=60):
        return subprocess.run([*map(str, words)], env=self.env, cwd=self.folder, capture_output=True, text=True,
                              timeout=seconds)

    def submit(self, script, *options):
        result = self.command("sbatch", "--parsable", f"--output={self.folder}/log", *options, EXAMPLES / script,
                              "--no-python", self.folder / "worker")
        assert result.returncode == 0, result
        self.number = result.stdout.strip()
        return self

    def log(self):
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_for_workers(self):
        processes.wait_until(lambda: len(list(self.folder.glob("up.*"))) == 2 * NODES or self.over(), 120,
                             lambda: f"the workers; {self.log()}")
        worlds = {path.read_text().split()[1] for path in self.folder.glob("up.*")}
        assert worlds == {str(2 * NODES)}, self.log()

    def state(self):
        """The job's state and exit code by scontrol, which knows a job for some minutes after its end."""
        shown = self.command("scontrol", "show", "job", self.number).stdout
        return (re.search(r"JobState=(\w+)", shown) or [None, "GONE"])[1], \
            (re.search(r" ExitCode=(\d+:\d+)", shown) or [None, ""])[1]

    def over(self):
        return self.state()[0] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")

    def wait_until_over(self, seconds=120):
        processes.wait_until(self.over, seconds, lambda: f"the end of the job, {self.state()}; {self.log()}")
        return self.state()

    def processes(self):
        """{pid: (name, environment)} of all that carry the cookie and run."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                environment = dict(entry.split("=", 1) for entry in
                                   (path / "environ").read_bytes().decode(errors="replace").split("\0") if "=" in entry)
                fields = processes.stat_fields(int(path.name))
                if environment.get("COOKIE") == self.cookie and fields and fields[0] not in (b"Z", b"X"):
                    found[int(path.name)] = ((path / "comm").read_text().strip(), environment)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found

    def nothing_is_left(self):
        processes.wait_until(lambda: not self.processes(), 30, lambda: f"processes left: {self.processes()}")

    def close(self):
        if self.number:
            self.command("scancel", self.number)
        for pid, _ in self.processes().items():
            processes.end(pid, processes.start_time(pid))


@pytest.fixture
def batch(cluster, tmp_path):
    one = Batch(cluster, tmp_path)
    yield one
    one.close()


both = pytest.mark.parametrize("script", ["static.sbatch", "c10d.sbatch"])


@both
def test_a_job_of_three_nodes_runs_to_its_end(batch, script):
    batch.submit(script).wait_for_workers()
    (batch.folder / "end").touch()
    assert batch.wait_until_over() == ("COMPLETED", "0:0"), batch.log()
    batch.nothing_is_left()
    assert sorted(path.name for path in batch.folder.glob("up.*")) == [f"up.{rank}" for rank in range(2 * NODES)]


@both
def test_B23_scancel_lets_the_workers_save_and_leaves_nothing(batch, script):
    batch.submit(script).wait_for_workers()
    assert batch.command("scancel", batch.number).returncode == 0
    assert batch.wait_until_over()[0] == "CANCELLED", batch.log()
    batch.nothing_is_left()
    assert len(list(batch.folder.glob("saved.*"))) == 2 * NODES, batch.log()


@both
@pytest.mark.parametrize("told", ["TERM@55", "B:TERM@55"], ids=["steps", "batch_shell"])
def test_B23_a_warning_before_the_limit_lets_the_workers_save_and_the_job_is_requeued(batch, script, told):
    batch.submit(script, "--time=1", f"--signal={told}").wait_for_workers()
    processes.wait_until(lambda: len(list(batch.folder.glob("saved.*"))) == 2 * NODES, 120,
                         lambda: f"saves, {batch.state()}; {batch.log()}")
    # Slurm holds a requeued job back for a while.
    requeued = lambda: "Restarts=1" in batch.command("scontrol", "show", "job", batch.number).stdout
    processes.wait_until(requeued, 60, lambda: f"the requeue, {batch.state()}; {batch.log()}")
    batch.command("scancel", batch.number)
    batch.wait_until_over()
    batch.nothing_is_left()


@both
def test_B21_a_killed_node_ends_the_job(batch, script):
    """The launcher of the last node dies of SIGKILL. Whether it hosted the store or not, nobody takes its place."""
    batch.submit(script, "--no-requeue").wait_for_workers()
    (victim,) = [pid for pid, (name, environment) in batch.processes().items()
                 if name == "cpprun" and environment.get("SLURM_NODEID") == str(NODES - 1)
                 and environment.get("RANK") is None]
    os.kill(victim, signal.SIGKILL)
    state, code = batch.wait_until_over()
    assert state == "FAILED" and code != "0:0", (state, code, batch.log())
    batch.nothing_is_left()


@both
def test_B21_a_worker_that_fails_ends_the_job_on_all_nodes(batch, script):
    batch.submit(script, "--no-requeue").wait_for_workers()
    os.kill(int((batch.folder / "up.3").read_text().split()[0]), signal.SIGKILL)
    state, code = batch.wait_until_over()
    assert state == "FAILED" and code != "0:0", (state, code, batch.log())
    batch.nothing_is_left()


def test_B22_one_launcher_per_task_is_said_once_for_each_node(batch):
    result = batch.command("srun", "--nodes=2", "--ntasks-per-node=2", "cpprun", "--standalone", "--nproc-per-node=2",
                           "--no-python", "true")
    assert result.returncode == 0, result
    said = re.findall(r"the batch system starts 2 launchers on this node \(SLURM_STEP_TASKS_PER_NODE=2\(x2\)\)", result.stderr)
    assert len(said) == 2, result


def test_B23_a_step_that_slurm_signals_as_a_whole_is_told_once_with_no_forward(batch):
    """Slurm signals all processes of a step, the workers too."""
    (batch.folder / "counter").write_text("""#!/bin/sh
me=$FOLDER/$SLURM_NODEID.$RANK
trap 'echo told >> "$me.heard"' TERM
echo $$ > "$me.up"
until [ -e "$me.heard" ]; do sleep 0.1; done
sleep 2
sleep 1
""")
    (batch.folder / "counter").chmod(0o755)
    result = batch.command("sbatch", "--parsable", f"--output={batch.folder}/log", "--nodes=2", "--ntasks-per-node=1",
                           "--wrap", f"exec srun cpprun --standalone --no-forward --nproc-per-node=2 --no-python "
                                     f"{batch.folder}/counter")
    assert result.returncode == 0, result
    batch.number = result.stdout.strip()
    processes.wait_until(lambda: len(list(batch.folder.glob("*.up"))) == 4 or batch.over(), 120, batch.log)
    assert batch.command("scancel", "--signal=TERM", batch.number).returncode == 0
    batch.wait_until_over()
    batch.nothing_is_left()
    heard = {path.name: path.read_text() for path in batch.folder.glob("*.heard")}
    assert len(heard) == 4 and set(heard.values()) == {"told\n"}, (heard, batch.log())
    assert "whose sender has told the workers too" in batch.log()
