# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch as the client of our store. Usage: torch_client_test.py STORE_PROGRAM

Exits 77 where torch is not installed, so that ctest counts the test as skipped.
"""
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from datetime import timedelta

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("torch is not installed")
    sys.exit(77)

STORE_PROGRAM = sys.argv[1]
SHORT = timedelta(milliseconds=300)


class Host:
    """Our store in a process of its own."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([STORE_PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.port = int(self.process.stdout.readline())

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def client(self, **options):
        options.setdefault("timeout", timedelta(seconds=30))
        return dist.TCPStore("127.0.0.1", self.port, is_master=False, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(20)


class EveryMethod(unittest.TestCase):
    def setUp(self):
        self.host = Host()
        self.addCleanup(self.host.__exit__)
        self.store = self.host.client()

    def test_set_and_get(self):
        for key, value in [("k", b"v"), ("", b""), ("a/b c\n\xff", bytes(range(256))), ("k" * 8191, b"long")]:
            self.store.set(key, value)
            self.assertEqual(self.store.get(key), value)

    def test_a_value_of_8_mib_comes_back_whole(self):
        value = os.urandom(8 << 20)
        self.store.set("big", value)
        self.assertEqual(self.store.get("big"), value)

    def test_add_and_num_keys(self):
        self.assertEqual(self.store.add("n", 5), 5)
        self.assertEqual(self.store.add("n", -7), -2)
        self.assertEqual(self.store.get("n"), b"-2")
        self.assertEqual(self.store.num_keys(), 1)

    def test_compare_set(self):
        self.assertEqual(self.store.compare_set("k", "", "a"), b"a")
        self.assertEqual(self.store.compare_set("k", "a", "b"), b"b")
        self.assertEqual(self.store.compare_set("k", "x", "c"), b"b")
        self.assertEqual(self.store.compare_set("missing", "x", "c"), b"x")

    def test_check_wait_and_delete(self):
        self.store.set("k", "v")
        self.assertTrue(self.store.check(["k"]))
        self.assertFalse(self.store.check(["k", "other"]))
        self.store.wait(["k"])
        self.assertTrue(self.store.delete_key("k"))
        self.assertFalse(self.store.delete_key("k"))

    def test_append_multi_set_and_multi_get(self):
        self.store.append("a", "xy")
        self.store.append("a", "z")
        self.store.multi_set(["m1", "m2"], ["A", "BB"])
        self.assertEqual(self.store.multi_get(["m1", "m2", "a"]), [b"A", b"BB", b"xyz"])
        keys = [f"many{i}" for i in range(5000)]
        self.store.multi_set(keys, keys)
        self.assertEqual(self.store.multi_get(keys), [key.encode() for key in keys])

    def test_queues(self):
        self.store.queue_push("q", b"one")
        self.store.queue_push("q", b"two")
        self.assertEqual(self.store.queue_len("q"), 2)
        self.assertEqual(self.store.queue_pop("q"), b"one")
        self.assertEqual(self.store.queue_pop("q", block=False), b"two")
        with self.assertRaises(dist.QueueEmptyError):
            self.store.queue_pop("q", block=False)

    def test_list_keys(self):
        self.store.set("k", "v")
        self.store.add("n", 1)
        self.assertEqual(sorted(self.store.list_keys()), ["k", "n"])

    def test_barrier_releases_when_all_have_come(self):
        done = []
        stores = [self.host.client() for _ in range(3)]
        threads = [threading.Thread(target=lambda s=s: done.append(s.barrier("b", 3, timedelta(seconds=20)))) for s in stores]
        for thread in threads[:2]:
            thread.start()
        time.sleep(0.1)
        self.assertEqual(done, [])
        threads[2].start()
        for thread in threads:
            thread.join(20)
        self.assertEqual(len(done), 3)

    def test_a_timed_out_wait_leaves_the_connection_usable(self):
        for _ in range(20):
            with self.assertRaisesRegex(dist.DistStoreError, "wait timeout after 10ms"):
                self.store.wait(["never"], timedelta(milliseconds=10))
            self.assertEqual(self.store.add("n", 0), 0)
        with self.assertRaisesRegex(dist.DistStoreError, "barrier timeout"):
            self.store.barrier("b", 2, SHORT)
        self.store.set_timeout(SHORT)
        with self.assertRaises(dist.DistStoreError):
            self.store.get("never")
        self.store.set("k", "v")
        self.assertEqual(self.store.get("k"), b"v")

    def test_a_waiting_get_is_released_by_another_client(self):
        other = self.host.client()
        timer = threading.Timer(0.1, lambda: other.set("later", "now"))
        timer.start()
        self.assertEqual(self.store.get("later"), b"now")
        timer.join()

    def test_prefix_store_and_clone(self):
        prefixed = dist.PrefixStore("outer", dist.PrefixStore("inner", self.store))
        prefixed.set("k", "v")
        self.assertEqual(self.store.get("inner/outer/k"), b"v")
        self.assertEqual(self.store.clone().get("inner/outer/k"), b"v")

    def test_the_worker_count(self):
        self.host.client(world_size=2)
        self.host.client(world_size=2)
        self.assertEqual(self.store.num_keys(), 1)

    def test_a_request_over_a_limit_closes_only_that_client(self):
        bad = self.host.client()
        bad.set("k" * 9000, "v")
        with self.assertRaises(dist.DistError):
            bad.add("n", 1)
            bad.add("n", 1)
        self.assertEqual(self.store.add("m", 1), 1)

    def test_a_stopped_store_ends_a_waiting_get_at_once(self):
        threading.Timer(0.2, lambda: self.host.process.stdin.close()).start()
        begin = time.monotonic()
        with self.assertRaises(dist.DistError):
            self.store.get("never")
        self.assertLess(time.monotonic() - begin, 20)


WORKER = r"""
import os, sys
from datetime import timedelta
import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
method = sys.argv[1]
if method == "env://":
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
else:
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world, timeout=timedelta(seconds=60))
dist.barrier()
if len(sys.argv) > 2:
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == world
    gathered = [None] * world
    dist.all_gather_object(gathered, {"rank": rank})
    assert [entry["rank"] for entry in gathered] == list(range(world))
    objects = [{"from": 0}] if rank == 0 else [None]
    dist.broadcast_object_list(objects)
    assert objects == [{"from": 0}]
    group = dist.new_group([0, 1])
    if rank in (0, 1):
        dist.barrier(group)
    dist.monitored_barrier()
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    weights = [torch.empty(2, 4) for _ in range(world)]
    dist.all_gather(weights, model.module.weight.data)
    assert all(torch.equal(weights[0], other) for other in weights)
if os.environ.get("DIE") == str(rank):
    os._exit(7)
dist.barrier()
print("rank", rank, "ok", flush=True)
os._exit(0)
"""


def run_workers(host, world, method="env://"):
    """Exit codes of `world` workers that meet in the store of `host`."""
    workers = []
    for rank in range(world):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(host.port), TORCHELASTIC_USE_AGENT_STORE="True",
                           TORCHELASTIC_RESTART_COUNT="0", OMP_NUM_THREADS="1")
        workers.append(subprocess.Popen([sys.executable, "-c", WORKER, method, "full"], env=environment,
                                        stdout=subprocess.DEVNULL))
    codes = []
    for worker in workers:
        try:
            codes.append(worker.wait(120))
        except subprocess.TimeoutExpired:
            worker.kill()
            codes.append(worker.wait())
    return codes


def fork_workers(host, world, die=None):
    """As run_workers, but without a new interpreter for each: many attempts in little time."""
    pids = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(host.port),
                              TORCHELASTIC_USE_AGENT_STORE="True", DIE="" if die is None else str(die))
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                if die is not None:
                    os.dup2(1, 2)
                sys.argv = ["worker", "env://"]
                exec(WORKER, {})
            finally:
                os._exit(1)
        pids.append(pid)
    codes = {}
    deadline = time.monotonic() + 60
    while len(codes) < world:
        for pid in set(pids) - codes.keys():
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[pid] = os.waitstatus_to_exitcode(status)
                if die is not None and codes[pid] == 7:
                    # As an agent does when a worker has failed; sometimes it is a moment too late.
                    for other in set(pids) - codes.keys():
                        os.kill(other, signal.SIGKILL)
        if time.monotonic() > deadline:
            for pid in set(pids) - codes.keys():
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return [codes[pid] for pid in pids]


class ProcessGroups(unittest.TestCase):
    def test_gloo_by_env_and_by_tcp(self):
        with Host() as host:
            self.assertEqual(run_workers(host, 2), [0, 0])
            host.ask("reset")
            self.assertEqual(run_workers(host, 2, f"tcp://127.0.0.1:{host.port}"), [0, 0])

    def test_four_ranks_on_all_addresses(self):
        with Host("all") as host:
            self.assertEqual(run_workers(host, 4), [0] * 4)

    def test_each_attempt_meets_an_empty_store(self):
        with Host() as host:
            for attempt in range(100):
                self.assertEqual(fork_workers(host, 2, die=1)[1], 7)
                self.assertEqual(host.ask("reset"), "done")
                self.assertEqual(fork_workers(host, 2), [0, 0], f"attempt {attempt}")
                host.ask("reset")


RANK0 = r"""
import sys
from datetime import timedelta
import torch.distributed as dist
port, libuv = int(sys.argv[1]), sys.argv[2] == "libuv"
store = dist.TCPStore("127.0.0.1", port, 1, True, timedelta(seconds=20), use_libuv=libuv)
store.set("k", "v")
print(store.get("k"), store.port == port, flush=True)
"""


class ReservedPort(unittest.TestCase):
    def test_b70_torch_listens_on_a_port_that_we_hold(self):
        for backend in ("libuv", "classic"):
            holder = subprocess.Popen([STORE_PROGRAM, "reserve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            port = holder.stdout.readline().strip()
            shown = subprocess.run([sys.executable, "-c", RANK0, port, backend], capture_output=True, text=True, timeout=60)
            self.assertEqual(shown.stdout.strip(), "b'v' True", shown.stderr)
            holder.stdin.close()
            holder.stdout.close()
            holder.wait(20)


if __name__ == "__main__":
    print("torch", torch.__version__, file=sys.stderr)
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=2)
