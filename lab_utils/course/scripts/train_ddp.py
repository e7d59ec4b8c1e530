import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

GLOBAL_BATCH, CONTEXT = 64, 16


def main() -> None:
    # en: torchrun tells each process who it is. RANK counts over all machines, LOCAL_RANK on this
    # en: one only: the GPUs of a machine are numbered from 0, so LOCAL_RANK chooses the device.
    # zh: torchrun 告诉每个进程它是谁。RANK 在所有机器上统一编号，LOCAL_RANK 只在本机编号：
    # zh: 每台机器的 GPU 都从 0 数起，所以选设备要用 LOCAL_RANK。
    local_rank = int(os.environ["LOCAL_RANK"])
    on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    # en: Every rank has the whole data set; the sampler gives each its own part of every batch.
    # zh: 每个 rank 都有完整的数据集，由采样器在每个批次里分给它自己的那一份。
    text = torch.tensor(list(Path(os.__file__).read_bytes()[:400]))
    windows = text.unfold(0, CONTEXT + 1, 1)
    data = TensorDataset(windows[:, :-1], windows[:, -1])
    sampler = DistributedSampler(data, seed=0, drop_last=True)
    loader = DataLoader(data, GLOBAL_BATCH // ranks, sampler=sampler, drop_last=True)

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(256, 16), nn.Flatten(), nn.Linear(16 * CONTEXT, 64), nn.Tanh(),
        nn.Linear(64, 256),
    ).to(device)  # fmt: skip
    ddp = DistributedDataParallel(model, device_ids=[local_rank] if on_gpu else None)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)

    for epoch in range(2):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(ddp(inputs.to(device)), targets.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            # en: Every rank joins the collective; only the printing asks for rank 0.
            # zh: 所有 rank 都参加集合通信，只有打印才判断是不是 rank 0。
            mean = loss.detach() / ranks
            dist.all_reduce(mean)
            if rank == 0:
                print(f"epoch {epoch} loss {mean.item():.7f}", flush=True)
    # en: Nobody leaves while another may still be waiting for what it sent.
    # zh: 还有 rank 可能在等它发出的数据时，谁都不能先走。
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
