# SPDX-License-Identifier: BSD-3-Clause
"""The Python half of a job whose workers are written in two languages: asks through PyTorch's own store client."""
import datetime
import os

from torch.distributed import TCPStore

store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False,
                 timeout=datetime.timedelta(seconds=60))
store.set("question", "is anybody there?")
answer = store.get("answer").decode()
store.barrier("done", int(os.environ["WORLD_SIZE"]))
print(f"python rank {os.environ['RANK']}: {answer}\n", end="", flush=True)  # one write: others write here too
