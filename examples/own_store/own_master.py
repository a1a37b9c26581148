# SPDX-License-Identifier: BSD-3-Clause
"""Overwrites MASTER_ADDR and MASTER_PORT before init_process_group, as many scripts from before torchrun do.

    cpprun --nproc-per-node=2 own_master.py --port=29555           waits for a server that nobody starts
    cpprun --nproc-per-node=2 own_master.py --port=29555 --serve   works: worker 0 serves the store again

Under a launcher that serves the workers' store itself (TORCHELASTIC_USE_AGENT_STORE=True) torch makes every worker a
client. Who changes the address must therefore also withdraw that promise, which is what --serve does.
"""

import argparse
import datetime
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--port", required=True)
parser.add_argument("--serve", action="store_true")
parser.add_argument("--timeout", type=float, default=60, help="seconds to wait for the store")
options = parser.parse_args()

os.environ["MASTER_ADDR"] = "127.0.0.1"
os.environ["MASTER_PORT"] = options.port
if options.serve:
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=options.timeout))
total = torch.ones(1)
dist.all_reduce(total)
print(f"rank {dist.get_rank()}: sum {total.item():g} by the store at {options.port}\n", end="", flush=True)
dist.destroy_process_group()
