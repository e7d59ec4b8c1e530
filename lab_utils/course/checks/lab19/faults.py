"""The parts of the training script as the learner finds them: each has several faults. The lab's
cells begin with them, and the script that the page starts with is right.py with all of them."""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from .right import Model, loss_of, windows


def validate(model, loader, rank, epoch):
    if rank == 0:
        model.eval()
        losses = []
        with torch.no_grad():
            for inputs, targets in loader:
                losses.append(loss_of(model, inputs, targets))
        mean = torch.stack(losses).mean() / dist.get_world_size()
        dist.all_reduce(mean)
        print(f"epoch {epoch} validation loss {mean.item():.6f}", flush=True)


def train_epoch(model, loader, optimizer, scheduler, accumulate, epoch):
    if hasattr(loader.sampler, "set_epoch"):
        loader.sampler.set_epoch(epoch)
    for number, (inputs, targets) in enumerate(loader, start=1):
        loss = loss_of(model, inputs, targets) / accumulate
        loss.backward()
        scheduler.step()
        if number % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()


def prepare(arguments):
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    device = torch.device("cpu")
    if on_gpu:
        device = torch.device("cuda", dist.get_rank())
        torch.cuda.set_device(device)
    torch.manual_seed(arguments.seed)
    model = Model(arguments.dropout).to(device)
    data = windows(0, arguments.windows)
    return device, model, DataLoader(data, arguments.batch, shuffle=True, drop_last=True)


class Checkpoint:
    def __init__(self, path, model, optimizer, scheduler, scaler):
        self.path, self.model, self.optimizer = path, model, optimizer
        self.scheduler, self.scaler = scheduler, scaler

    def save(self, epoch):
        torch.save({"model": self.model.state_dict(), "epoch": epoch}, self.path)

    def load(self):
        state = torch.load(self.path)
        self.model.load_state_dict(state["model"])
        return state["epoch"]


def train_mixed(model, loader, optimizer, scheduler, scaler, clip, epoch):
    for inputs, targets in loader:
        with torch.cuda.amp.autocast():
            loss = loss_of(model, inputs, targets)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"epoch {epoch} training loss {loss.item():.6f}", flush=True)
