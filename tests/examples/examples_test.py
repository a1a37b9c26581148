# SPDX-License-Identifier: BSD-3-Clause
"""Runs the programs of examples/ as their READMEs say, under the launcher that was built.

    python3 examples_test.py CASE [unittest options]      exit 77: the virtual environment that CASE needs is not there

The environment names what was built: CPPRUN (the launcher), CPPRUN_PI (examples/native), CPPRUN_MEET
(examples/mixed_store), CPPRUN_BUILD (the build folder). Jobs are bounded in time only against hanging.
"""

import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(REPOSITORY, "examples")
VENV = os.path.join(REPOSITORY, ".venv", "bin")
LAUNCHER = os.environ.get("CPPRUN", "cpprun")
BOUND_S = 240
SKIPPED = 77


def example(*parts):
    return os.path.join(EXAMPLES, *parts)


def environment(**changes):
    """Ours without what an outer launcher or shell may have set, the virtual environment first on PATH."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("PET_", "TORCH", "CPPRUN", "ACCELERATE")) and name not in
            ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "PYTHON_EXEC")}
    return {**kept, "PATH": VENV + os.pathsep + kept.get("PATH", ""), **changes}


class Job:
    """A finished command: .status, .output (stdout), .errors (stderr)."""

    def __init__(self, *command, **changes):
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=environment(**changes), start_new_session=True)
        try:
            self.output, self.errors = process.communicate(timeout=BOUND_S)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGTERM)
            self.output, self.errors = process.communicate(timeout=60)
            self.errors += f"\n(still running after {BOUND_S} s)"
        self.status = process.returncode

    def told(self):
        return f"status {self.status}\n--- stdout\n{self.output}\n--- stderr\n{self.errors}"


def launch(*arguments, **changes):
    return Job(LAUNCHER, *arguments, **changes)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class ExampleCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cpprun-example-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def in_folder(self, *parts):
        return os.path.join(self.folder, *parts)

    def assert_well(self, job):
        self.assertEqual(job.status, 0, job.told())

    def assert_lines(self, job, pattern, count):
        self.assertEqual(len(re.findall(pattern, job.output, re.MULTILINE)), count, job.told())


class TorchCase(ExampleCase):
    """What needs PyTorch."""


class DdpDigits(TorchCase):
    def accuracy(self, job):
        found = re.search(r"^test accuracy: ([0-9.]+) %$", job.output, re.MULTILINE)
        self.assertIsNotNone(found, job.told())
        return float(found.group(1))

    def train(self, *arguments, options=()):
        return launch("--nproc-per-node=2", *options, example("ddp_digits", "train.py"),
                      f"--checkpoint={self.in_folder('digits.pt')}", *arguments)

    def test_loses_a_worker_resumes_from_its_checkpoint_and_ends_well(self):
        job = self.train("--epochs=12", "--fail-at-epoch=5", "--fail-rank=1", options=["--max-restarts=1"])
        self.assert_well(job)
        self.assert_lines(job, r"^attempt 0: training from the start, 2 workers$", 1)
        self.assert_lines(job, r"^rank 1: killing myself$", 1)
        self.assert_lines(job, r"^attempt 1: resumed at epoch 5, 2 workers$", 1)
        self.assertGreater(self.accuracy(job), 95.0)
        self.assertEqual(os.listdir(self.folder), ["digits.pt"])

    def test_without_restarts_the_launch_fails_and_a_second_one_goes_on(self):
        first = self.train("--epochs=3", "--fail-at-epoch=2", "--fail-rank=0")
        self.assertEqual(first.status, 1, first.told())
        self.assertIn("(SIGKILL)", first.errors)
        second = self.train("--epochs=3")
        self.assert_well(second)
        self.assert_lines(second, r"^attempt 0: resumed at epoch 2, 2 workers$", 1)


class Native(ExampleCase):
    program = os.environ.get("CPPRUN_PI", "pi")
    shares = r"^attempt (\d), rank (\d) of (\d) \(local (\d) of (\d)\): ([0-9.]+)$"

    def assert_pi(self, job, workers, attempt=0):
        self.assert_well(job)
        found = re.findall(self.shares, job.output, re.MULTILINE)
        self.assertEqual(sorted(int(rank) for _, rank, *_ in found), list(range(workers)), job.told())
        self.assertEqual({int(line[0]) for line in found[-workers:]}, {attempt})
        self.assertAlmostEqual(sum(float(line[-1]) for line in found), math.pi, places=9)

    def test_workers_share_the_integral_and_exchange_it_through_the_store(self):
        job = launch("--nproc-per-node=4", "--no-python", self.program)
        self.assert_pi(job, workers=4)
        self.assert_lines(job, r"^together: 3\.1416$", 1)

    def test_is_executed_directly_without_no_python(self):
        self.assert_pi(launch("--nproc-per-node=2", self.program), workers=2)

    def test_a_thrown_exception_stands_in_the_failure_report(self):
        job = launch("--nproc-per-node=2", "--no-python", self.program, "--fail-rank=1")
        self.assertEqual(job.status, 1, job.told())
        self.assertIn("rank      : 1 (local_rank: 1)", job.errors)
        self.assertIn("traceback : std::runtime_error: rank 1 lost its share", job.errors)

    def test_a_restart_gives_the_place_anew(self):
        job = launch("--nproc-per-node=2", "--max-restarts=1", "--no-python", self.program, "--fail-rank=0")
        self.assert_well(job)
        self.assertIn("std::runtime_error: rank 0 lost its share", job.errors)
        found = [line for line in re.findall(self.shares, job.output, re.MULTILINE) if line[0] == "1"]
        self.assertEqual(sorted(line[1] for line in found), ["0", "1"], job.told())

    def test_outside_a_launcher_it_says_what_is_missing(self):
        job = Job(self.program)
        self.assertEqual(job.status, 1)
        self.assertIn("WORLD_SIZE is not set: start this program by a launcher", job.errors)


class MixedStore(TorchCase):
    def test_a_native_and_a_python_worker_meet_in_one_store(self):
        job = launch("--nproc-per-node=2", "--no-python", example("mixed_store", "worker.sh"),
                     os.environ.get("CPPRUN_MEET", "meet"), PYTHON=os.path.join(VENV, "python3"))
        self.assert_well(job)
        self.assert_lines(job, r"^python rank 0: rank 1 has read 'is anybody there\?'$", 1)
        self.assert_lines(job, r"^native rank 1: is anybody there\?$", 1)


class InstalledPackage(ExampleCase):
    def test_the_native_example_builds_and_runs_against_it(self):
        prefix, build = self.in_folder("prefix"), self.in_folder("build")
        self.assert_well(Job("cmake", "--install", os.environ["CPPRUN_BUILD"], "--prefix", prefix))
        self.assert_well(Job("cmake", "-G", "Ninja", "-S", example("native"), "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}"))
        self.assert_well(Job("cmake", "--build", build))
        job = Job(os.path.join(prefix, "bin", "cpprun"), "--nproc-per-node=3", "--no-python", os.path.join(build, "pi"))
        self.assert_well(job)
        self.assert_lines(job, r"^attempt 0, rank \d of 3 ", 3)


class LaunchMigration(TorchCase):
    summed = r"^local rank ([01]), rank \1 of 2: sum 6$"

    def test_b05_a_script_that_wants_a_local_rank_argument_gets_it_on_request(self):
        job = launch("--nproc-per-node=2", "--pass-local-rank", example("launch_migration", "before.py"), "--scale=2")
        self.assert_well(job)
        self.assert_lines(job, self.summed, 2)

    def test_b05_without_the_request_nothing_is_added_and_the_report_names_exit_code_2(self):
        job = launch("--nproc-per-node=2", example("launch_migration", "before.py"))
        self.assertEqual(job.status, 1, job.told())
        self.assertIn("the following arguments are required: --local-rank/--local_rank", job.errors)
        self.assertIn("exitcode  : 2 (pid: ", job.errors)

    def test_a_script_that_reads_the_environment_needs_nothing(self):
        job = launch("--nproc-per-node=2", example("launch_migration", "after.py"), "--scale=2")
        self.assert_well(job)
        self.assert_lines(job, self.summed, 2)


class OwnStore(TorchCase):
    def own_master(self, *arguments, options=(), port=None, **changes):
        return launch("--nproc-per-node=2", *options, example("own_store", "own_master.py"),
                      f"--port={port or free_port()}", *arguments, **changes)

    def test_b18_an_address_of_ones_own_waits_for_a_server_that_nobody_starts(self):
        job = self.own_master("--timeout=3")
        self.assertEqual(job.status, 1, job.told())
        self.assertIn("DistNetworkError", job.errors)

    def test_b18_an_address_of_ones_own_works_when_worker_0_serves_it(self):
        job = self.own_master("--serve")
        self.assert_well(job)
        self.assert_lines(job, r"^rank \d: sum 2 by the store at ", 2)

    def test_b18_an_unchanged_script_works_when_the_launcher_leaves_the_store_to_worker_0(self):
        for options, changes in ((["--worker-store=rank0"], {}), ([], {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})):
            job = self.own_master(options=options, **changes)
            self.assert_well(job)
            self.assert_lines(job, r"^rank \d: sum 2 by the store at ", 2)

    def test_b18_an_unchanged_script_works_when_the_launcher_serves_at_its_address(self):
        port = free_port()
        job = self.own_master(options=["--master-addr=127.0.0.1", f"--master-port={port}"], port=port)
        self.assert_well(job)
        self.assert_lines(job, r"^rank \d: sum 2 by the store at ", 2)

    def test_b18_a_private_tcp_store_works_beside_the_launchers(self):
        job = launch("--nproc-per-node=2", example("own_store", "own_tcp_store.py"))
        self.assert_well(job)
        self.assert_lines(job, r"^rank \d: sum 2 by a store of our own$", 2)

    def test_processes_spawned_inside_a_worker_form_their_own_group(self):
        job = launch("--nproc-per-node=2", example("own_store", "spawn_inside.py"))
        self.assert_well(job)
        self.assert_lines(job, r"^child \d of 2 of worker [01]: sum 2$", 4)


class Accelerate(TorchCase):
    def test_a_script_started_by_the_launcher_sees_every_process(self):
        job = launch("--nproc-per-node=2", example("accelerate", "train.py"))
        self.assert_well(job)
        self.assert_lines(job, r"^2 processes, DistributedType.MULTI_CPU: loss 0\.\d+$", 1)


def main():
    case = globals().get(sys.argv[1].split(".")[0], ExampleCase)
    if issubclass(case, TorchCase) and not os.access(os.path.join(VENV, "python"), os.X_OK):
        print(f"{VENV}/python is not there: scripts/quickstart makes the virtual environment")
        return SKIPPED
    program = unittest.main(module=__name__, argv=[sys.argv[0], *sys.argv[1:]], exit=False, verbosity=2)
    return 0 if program.result.wasSuccessful() and program.result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())
