# SPDX-License-Identifier: BSD-3-Clause
"""Worker that leaves argv[1] in its error file (`-`: leaves none) and ends with argv[2]: an exit code, or -SIGNAL.
With argv[3] only that rank does; the others sleep."""
import os
import sys
import time

text, end = sys.argv[1], int(sys.argv[2])
if len(sys.argv) > 3 and os.environ["RANK"] != sys.argv[3]:
    time.sleep(60)
if text != "-":
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        file.write(text)
if end < 0:
    os.kill(os.getpid(), -end)
sys.exit(end)
