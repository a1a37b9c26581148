# SPDX-License-Identifier: BSD-3-Clause
"""As it was written for `python -m torch.distributed.launch`: the local rank comes as an argument.

Both spellings are declared: torch before 2.0 passed --local_rank, newer ones pass --local-rank.
"""

import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", "--local_rank", type=int, required=True)
parser.add_argument("--scale", type=float, default=1.0)
options = parser.parse_args()

dist.init_process_group("gloo", init_method="env://")
total = torch.tensor([options.scale * (dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"local rank {options.local_rank}, rank {dist.get_rank()} of {os.environ['WORLD_SIZE']}: sum {total.item():g}\n",
      end="", flush=True)
dist.destroy_process_group()
