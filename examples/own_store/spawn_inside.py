# SPDX-License-Identifier: BSD-3-Clause
"""Calls torch.multiprocessing.spawn, though a launcher has started it already.

    cpprun --nproc-per-node=1 spawn_inside.py

The spawned processes inherit the launcher's variables, which describe one worker, so the script sets the world of its
own children: a free port, and no promise of an agent's store. With --nproc-per-node=2 each worker spawns such a group
of its own, apart from the other's.
"""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CHILDREN = 2


def child(index, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCHELASTIC_USE_AGENT_STORE="False")
    dist.init_process_group("gloo", rank=index, world_size=CHILDREN)
    total = torch.ones(1)
    dist.all_reduce(total)
    print(f"child {index} of {CHILDREN} of worker {os.environ.get('RANK', '-')}: sum {total.item():g}\n", end="", flush=True)
    dist.destroy_process_group()


def main():
    # Bound until the children are about to start, so that two workers never draw the same number.
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))
        port = placeholder.getsockname()[1]
    mp.spawn(child, args=(port,), nprocs=CHILDREN)
    return 0


if __name__ == "__main__":
    sys.exit(main())
