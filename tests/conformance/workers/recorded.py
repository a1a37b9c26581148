# SPDX-License-Identifier: BSD-3-Clause
"""Worker under torch's @record that raises, or leaves by sys.exit(N)."""
import os
import sys
import time

from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    if len(sys.argv) > 2 and os.environ["RANK"] != sys.argv[2]:
        time.sleep(60)
    if sys.argv[1] == "interrupt":
        raise KeyboardInterrupt
    if sys.argv[1].isdigit():
        sys.exit(int(sys.argv[1]))
    raise RuntimeError(sys.argv[1])


main()
