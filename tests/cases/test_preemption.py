# SPDX-License-Identifier: BSD-3-Clause
"""A worker that saves when it is told to, with the children of a data loader: its save comes to its end every time.
5 times each, 100 with CPPRUN_LONG=1."""
import signal
import tempfile

import pytest
from harness import processes

# A worker that trains, with data-loader processes: PyTorch's, forked. They die of a SIGTERM that does not come from their
# parent, as one to the process group does not, and take the worker's loop with them; so the signal goes to the worker
# alone. A forwarded SIGUSR1 finds the worker's handler in them, which does nothing there.
TRAINER = """
import faulthandler, os, signal, sys, time
faulthandler.dump_traceback_later(200)
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 1_000_000
    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.tensor(float(index))

me, told = os.getpid(), []
def hear(number, frame):
    if os.getpid() == me:
        told.append(number)
for name in ("SIGTERM", "SIGUSR1"):
    signal.signal(getattr(signal, name), hear)
rank, ends = os.environ["RANK"], sys.argv[1] == "end"
for step, batch in enumerate(DataLoader(Numbers(), batch_size=4, num_workers=int(sys.argv[2]))):
    if step == 3:
        open(f"up.{rank}", "w").close()
    if told:
        state = {"step": step, "weights": torch.ones(300_000)}
        with open(f"save.{rank}.part", "wb") as file:
            torch.save(state, file)
            time.sleep(0.3)
        os.rename(f"save.{rank}.part", f"save.{rank}")
        if ends:
            sys.exit(0)
        told.clear()
    if os.path.exists("enough"):
        sys.exit(0)
"""
# A wrapper that hears the group's signal as well, and waits for its child.
WRAPPER = "#!/bin/sh\ntrap : TERM USR1\npython3 train.py \"$@\" &\nwhile kill -0 $! 2> /dev/null; do wait $!; done\n"


@pytest.fixture
def saves(place):
    import torch
    # The data loader's sockets have names of 107 bytes at most, and the place's own folder can be longer.
    short = tempfile.TemporaryDirectory(prefix="save.")
    place.write("train.py", TRAINER)
    place.write("wrapper.sh", WRAPPER)

    def start(*words):
        for path in [*place.cwd.glob("save.*"), *place.cwd.glob("up.*"), *place.cwd.glob("enough")]:
            path.unlink()
        process = place.start("--nproc-per-node=2", "--omp-threads=1", "--shutdown-timeout=120", *words,
                              env={"TMPDIR": short.name})
        try:
            processes.wait_until(lambda: len(list(place.cwd.glob("up.*"))) == 2 or process.poll() is not None, 240, "steps")
        except TimeoutError:
            process.kill()  # its workers die with it, and their stacks are in what they wrote
            pytest.fail(f"no steps after 240 s:\n{process.communicate(timeout=60)}")
        return process

    def complete():
        return all((place.cwd / f"save.{rank}").exists()
                   and len(torch.load(place.cwd / f"save.{rank}")["weights"]) == 300_000 for rank in (0, 1))
    place.complete = complete
    yield start
    short.cleanup()


@pytest.mark.parametrize("words", [["--stop-signal-to=rank", "train.py", "end", "2"],
                                   ["--no-python", "./wrapper.sh", "end", "0"]], ids=["data_loaders", "wrapper"])
def test_a_save_on_sigterm_is_never_cut_off(place, saves, words, long_or):
    for _ in range(long_or(100, 5)):
        process = saves(*words)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)  # as batch systems do
        _, err = process.communicate(timeout=180)
        assert process.returncode == 1 and place.complete(), err
        assert "SIGKILL" not in err.decode() and "forcefully" not in err.decode(), err


def test_a_save_on_a_forwarded_signal_leaves_the_run_alone(place, saves, long_or):
    for _ in range(long_or(100, 5)):
        process = saves("--forward-signals=USR1", "train.py", "stay", "2")
        process.send_signal(signal.SIGUSR1)
        processes.wait_until(lambda: len(list(place.cwd.glob("save.[01]"))) == 2 or process.poll() is not None, 240,
                             "the saves")
        (place.cwd / "enough").touch()
        _, err = process.communicate(timeout=180)
        assert process.returncode == 0 and place.complete(), err
