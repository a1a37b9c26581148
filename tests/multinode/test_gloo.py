# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own workers on two hosts, with a rank 0 that is slow to start: under torchrun 2.13 such a job does not come
through a restart, since the others read the address of the dead one."""
import re

import pytest
from harness import launchers

# Each round but the last ends with the failure of rank 1, after all have met.
WORKER = """
import datetime, os, time
import torch
import torch.distributed as dist
rank, attempt = int(os.environ["RANK"]), int(os.environ["CPPRUN_ROUND"])
if rank == 0:
    time.sleep(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=40))
total = torch.ones(1)
dist.all_reduce(total)
print(f"rank {rank} round {attempt} sum {total.item():g}\\n", end="", flush=True)
if attempt < 2:
    if rank == 1:
        os._exit(3)
    time.sleep(100)
dist.barrier()
os._exit(0)
"""


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_gloo_comes_through_restarts(network, tmp_path, backend):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    hosts = network.add_hosts("node1", "node2")
    agents = []
    for rank, host in enumerate(hosts):
        way = ([f"--node-rank={rank}", f"--master-addr={hosts[0].address}", "--master-port=29500"]
               if backend == "static" else
               ["--rdzv-backend=c10d", f"--rdzv-endpoint={hosts[0].address}:29400", "--rdzv-id=gloo"])
        agents.append(host.start(launchers.cpprun_binary(), "--nnodes=2", "--max-restarts=3", *way, "--no-python",
                                 launchers.python_with_torch(), script))
    assert [agent.wait(150) for agent in agents] == [0, 0], agents
    told = [re.findall(r"rank (\d) round (\d) sum 2$", agent.stdout, re.MULTILINE) for agent in agents]
    assert sorted(told[0] + told[1]) == sorted((str(rank), str(turn)) for rank in range(2) for turn in range(3)), agents
