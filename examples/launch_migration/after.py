# SPDX-License-Identifier: BSD-3-Clause
"""The same after its change: the local rank is read from the environment, no argument is needed."""

import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--scale", type=float, default=1.0)
options = parser.parse_args()
local_rank = int(os.environ["LOCAL_RANK"])

dist.init_process_group("gloo", init_method="env://")
total = torch.tensor([options.scale * (dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"local rank {local_rank}, rank {dist.get_rank()} of {os.environ['WORLD_SIZE']}: sum {total.item():g}\n",
      end="", flush=True)
dist.destroy_process_group()
