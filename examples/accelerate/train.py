# SPDX-License-Identifier: BSD-3-Clause
"""A training loop written for Hugging Face accelerate, started by cpprun in place of `accelerate launch`.

    cpprun --nproc-per-node=2 train.py

accelerate finds its place in the variables that every launcher of this kind sets; --cpu makes it use gloo.
"""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    data = load_digits()
    dataset = TensorDataset(torch.tensor(data.data, dtype=torch.float32) / 16, torch.tensor(data.target))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model, optimizer, batches = accelerator.prepare(model, optimizer, DataLoader(dataset, batch_size=64, shuffle=True))
    for _ in range(5):
        for images, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
    mean_loss = accelerator.gather(loss.detach().reshape(1)).mean().item()
    accelerator.print(f"{accelerator.num_processes} processes, {accelerator.distributed_type}: loss {mean_loss:.3f}")
    accelerator.end_training()
    return 0


if __name__ == "__main__":
    sys.exit(main())
