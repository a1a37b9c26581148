# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small network on scikit-learn's handwritten digits with DistributedDataParallel over gloo.

    cpprun --nproc-per-node=4 --max-restarts=1 train.py --checkpoint=/tmp/digits.pt

Each epoch ends with a checkpoint that appears whole or not at all; a restarted group resumes from it.
--fail-at-epoch and --fail-rank let one worker of the first attempt kill itself, to show that.
"""

import argparse
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--checkpoint", default="digits.pt", help="file to resume from and to write after each epoch")
    parser.add_argument("--fail-at-epoch", type=int, help="kill a worker of the first attempt after so many epochs")
    parser.add_argument("--fail-rank", type=int, default=1, help="which worker that is")
    return parser.parse_args()


def digits():
    """1,797 images of 8 x 8 pixels in 10 classes: the first four fifths to train on, the rest to test with."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    cut = len(labels) * 4 // 5
    train, test = order[:cut], order[cut:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10))


def save(path, epoch, model, optimizer):
    """Replaces the checkpoint in one step, so that a worker killed meanwhile leaves the old one."""
    beside = f"{path}.{os.getpid()}"
    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, beside)
    os.replace(beside, path)


def resume(path, model, optimizer):
    """The number of epochs already trained; 0 without a checkpoint."""
    if not os.path.exists(path):
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"]


def train_epoch(model, optimizer, batches):
    model.train()
    for images, labels in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


def accuracy(model, dataset):
    """Share of the dataset that is classified rightly, each worker looking at its part of it."""
    model.eval()
    images, labels = (tensor[dist.get_rank()::dist.get_world_size()] for tensor in dataset.tensors)
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).sum()
    return sum_over_workers(float(right)) / sum_over_workers(float(len(labels)))


def sum_over_workers(number):
    # By a group of its own, whose threads end with it. DistributedDataParallel keeps the default group and its gloo
    # threads beyond destroy_process_group, and one that still holds a tensor of Python's when the interpreter ends
    # aborts the process: "terminate called without an active exception".
    group = dist.new_group()
    total = torch.tensor([number])
    dist.all_reduce(total, group=group)
    dist.destroy_process_group(group)
    return float(total)


def kill_myself():
    print(f"rank {dist.get_rank()}: killing myself\n", end="", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def say(*words):
    if dist.get_rank() == 0:
        print(*words, "\n", sep="", end="", flush=True)


@record
def main():
    options = parse_arguments()
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    train_set, test_set = digits()
    sampler = DistributedSampler(train_set, seed=0)
    batches = DataLoader(train_set, batch_size=max(1, 64 // dist.get_world_size()), sampler=sampler)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    first_epoch = resume(options.checkpoint, model, optimizer)
    parallel = DistributedDataParallel(model)
    say(f"attempt {attempt}: " + (f"resumed at epoch {first_epoch}" if first_epoch else "training from the start")
        + f", {dist.get_world_size()} workers")

    started = time.monotonic()
    for epoch in range(first_epoch, options.epochs):
        sampler.set_epoch(epoch)
        train_epoch(parallel, optimizer, batches)
        if dist.get_rank() == 0:
            save(options.checkpoint, epoch + 1, model, optimizer)
        dist.barrier()
        if attempt == 0 and options.fail_at_epoch == epoch + 1 and dist.get_rank() == options.fail_rank:
            kill_myself()
    seconds = time.monotonic() - started
    reached = accuracy(parallel, test_set)
    say(f"trained {max(0, options.epochs - first_epoch)} epochs in {seconds:.1f} s")
    say(f"test accuracy: {100 * reached:.1f} %")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
