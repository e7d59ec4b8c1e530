import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

GLOBAL_BATCH, CONTEXT = 64, 16


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = dist.init_device_mesh(device.type, (ranks,))

    text = torch.tensor(list(Path(os.__file__).read_bytes()[:400]))
    windows = text.unfold(0, CONTEXT + 1, 1)
    data = TensorDataset(windows[:, :-1], windows[:, -1])
    sampler = DistributedSampler(data, seed=0, drop_last=True)
    loader = DataLoader(data, GLOBAL_BATCH // ranks, sampler=sampler, drop_last=True)

    # en: Each rank keeps its part of its own first weights, and nothing is broadcast:
    # en: without the same seed everywhere the model would be pieced together from several.
    # zh: 每个 rank 从自己的初始权重里留下自己那一份，并不广播：
    # zh: 种子若不相同，拼出来的就是由几个模型凑成的一个。
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(256, 16), nn.Flatten(), nn.Linear(16 * CONTEXT, 64), nn.Tanh(),
        nn.Linear(64, 256),
    ).to(device)  # fmt: skip
    # en: The units from the inside out, the whole model last; it takes what is left over.
    # zh: 从内到外逐个切分单元，最后是整个模型，剩下的都归它。
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    # en: After sharding, or the optimizer would hold whole weights and their states.
    # zh: 切分之后再创建优化器，否则它手里是完整的权重和状态。
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    for epoch in range(2):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs.to(device)), targets.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean = loss.detach() / ranks
            dist.all_reduce(mean)
            if rank == 0:
                print(f"epoch {epoch} loss {mean.item():.7f}", flush=True)

    kept = sum(parameter.to_local().numel() for parameter in model.parameters())
    # en: A collective: every rank gathers, then one may print.
    # zh: 这是集合通信：所有 rank 都来收集，再由一个打印。
    norm = model[0].weight.full_tensor().norm().item()
    if rank == 0:
        print(f"rank 0 keeps {kept} weights; norm of the embedding {norm:.4f}", flush=True)
    # en: Nobody leaves while another may still be waiting for what it sent.
    # zh: 还有 rank 可能在等它发出的数据时，谁都不能先走。
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
