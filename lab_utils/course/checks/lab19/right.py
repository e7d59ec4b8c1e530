"""The training script of lab 19 as it should be, in plain torch:
torchrun --standalone --nproc-per-node 2 train.py

A check puts the learner's part in the place of the one here that has its name. Nothing here needs
this package.
"""

import argparse
import contextlib
import math
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CONTEXT, STRIDE = 16, 7


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--windows", type=int, default=208)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--stop-after", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    return parser.parse_args()


class Model(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.embedding = nn.Embedding(128, 8)
        self.hidden = nn.Linear(8, 16)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(16, 128)

    def forward(self, inputs):
        return self.head(self.dropout(torch.tanh(self.hidden(self.embedding(inputs)))))


def windows(first, last):
    text = [byte for byte in Path(os.__file__).read_bytes() if byte < 128]
    cut = torch.tensor(text).unfold(0, CONTEXT + 1, STRIDE)[first:last]
    return TensorDataset(cut[:, :-1], cut[:, 1:])


def loss_of(model, inputs, targets):
    device = next(model.parameters()).device
    inputs, targets = inputs.to(device), targets.to(device)
    return nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def prepare(arguments):
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    device = torch.device("cpu")
    if on_gpu:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.manual_seed(arguments.seed)
    model = Model(arguments.dropout).to(device)
    torch.manual_seed(arguments.seed + 1 + dist.get_rank())
    data = windows(0, arguments.windows)
    sampler = DistributedSampler(data, seed=arguments.seed, drop_last=True)
    return device, model, DataLoader(data, arguments.batch, sampler=sampler, drop_last=True)


def train_epoch(model, loader, optimizer, scheduler, accumulate, epoch):
    if hasattr(loader.sampler, "set_epoch"):
        loader.sampler.set_epoch(epoch)
    for number, (inputs, targets) in enumerate(loader):
        first = number - number % accumulate
        size = min(accumulate, len(loader) - first)
        last = number + 1 == first + size
        with contextlib.nullcontext() if last else model.no_sync():
            loss = loss_of(model, inputs, targets)
            (loss / size).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()


def train_mixed(model, loader, optimizer, scheduler, scaler, clip, epoch):
    loader.sampler.set_epoch(epoch)
    device = next(model.parameters()).device.type
    total = torch.zeros(2)
    for inputs, targets in loader:
        with torch.autocast(device, dtype=torch.float16):
            loss = loss_of(model, inputs, targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if scaler.get_scale() >= scale:
            scheduler.step()
        total += torch.tensor([loss.item(), 1.0])
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"epoch {epoch} training loss {total[0] / total[1]:.6f}", flush=True)


def validate(model, loader, rank, epoch):
    model.eval()
    total = torch.zeros(2, dtype=torch.float64)
    with torch.no_grad():
        for inputs, targets in loader:
            loss = loss_of(model, inputs, targets)
            total += torch.tensor([loss.item() * targets.numel(), targets.numel()])
    model.train()
    dist.all_reduce(total)
    if rank == 0:
        print(f"epoch {epoch} validation loss {total[0] / total[1]:.6f}", flush=True)


class Checkpoint:
    def __init__(self, path, model, optimizer, scheduler, scaler):
        self.path, self.model, self.optimizer = path, model, optimizer
        self.scheduler, self.scaler = scheduler, scaler

    def save(self, epoch):
        random = [None] * dist.get_world_size()
        dist.all_gather_object(random, torch.get_rng_state())
        if dist.get_rank() == 0:
            state = {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
                "scaler": self.scaler.state_dict(),
                "random": random,
                "epoch": epoch,
            }
            unfinished = self.path.with_suffix(".tmp")
            torch.save(state, unfinished)
            os.replace(unfinished, self.path)

    def load(self):
        state = torch.load(self.path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        torch.set_rng_state(state["random"][dist.get_rank()])
        return state["epoch"] + 1


def main():
    arguments = parse()
    device, model, loader = prepare(arguments)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    held_out = windows(arguments.windows, arguments.windows + 45)
    mine = torch.utils.data.Subset(held_out, range(rank, len(held_out), ranks))
    held_out = DataLoader(mine, arguments.batch)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=arguments.rate, momentum=0.9)
    accumulate = 1 if arguments.mixed else arguments.accumulate
    updates = arguments.epochs * math.ceil(len(loader) / accumulate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: max(0.0, 1 - n / updates))
    scaler = torch.amp.GradScaler(device.type)
    checkpoint = Checkpoint(arguments.checkpoint, model, optimizer, scheduler, scaler)
    first = checkpoint.load() if arguments.checkpoint.exists() else 0
    for epoch in range(first, arguments.epochs):
        if arguments.mixed:
            train_mixed(ddp, loader, optimizer, scheduler, scaler, arguments.clip, epoch)
        else:
            train_epoch(ddp, loader, optimizer, scheduler, arguments.accumulate, epoch)
        validate(model, held_out, rank, epoch)
        checkpoint.save(epoch)
        dist.barrier()
        if epoch + 1 == arguments.stop_after:
            break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
