# SPDX-License-Identifier: BSD-3-Clause
"""Brings a TCPStore of its own: worker 0 opens it on a free port and tells the others through the launcher's store.

    cpprun --nproc-per-node=2 own_tcp_store.py

Works under any launcher, as the private store is made by its constructor, which looks at no variable.
"""

import datetime
import os
import sys

import torch
import torch.distributed as dist

WAIT = datetime.timedelta(seconds=60)


def own_store(rank, world_size):
    """A store served by worker 0; its port travels through the default one."""
    meeting = next(dist.rendezvous("env://", rank, world_size, timeout=WAIT))[0]
    key = f"own_store/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, world_size, is_master=True, timeout=WAIT, wait_for_workers=False)
        meeting.set(key, str(store.port))
        return store
    return dist.TCPStore("127.0.0.1", int(meeting.get(key)), world_size, is_master=False, timeout=WAIT)


def main():
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", store=own_store(rank, world_size), rank=rank, world_size=world_size, timeout=WAIT)
    total = torch.ones(1)
    dist.all_reduce(total)
    print(f"rank {rank}: sum {total.item():g} by a store of our own\n", end="", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
