"""What each cure saves and costs, and what of it was published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...config import Cluster, TrainConfig
from ...i18n import t
from ...report import Report
from ...text import Table, table
from ...widgets.frame.units import percent
from .states import STATES, in_gb

if TYPE_CHECKING:
    from torch import nn


def same_as_estimated(run: Report) -> bool:
    """Whether every byte of a run is as estimated from its configuration."""
    from ...comparison import compare
    from ...estimate import estimate

    expected = estimate(TrainConfig.from_dict(run.config))
    return compare(expected, run).only("memory", "job").exact()


def accumulation_table(runs: Mapping[int, Report]) -> Table:
    """Runs by their number of micro-batches, the first of them the one to compare with."""
    terms = ("activations", "gradients", "optimizer", "peak")
    rows: list[Sequence[Any]] = [
        (
            t("micro-batches", "微批次数"),
            t("activations, bytes", "激活值，字节"),
            t("gradients", "梯度"),
            t("optimizer", "优化器"),
            t("peak", "峰值"),
            t("losses equal", "损失相同"),
            t("all as estimated", "均与估算一致"),
        )
    ]
    whole = next(iter(runs.values()))
    for m, run in runs.items():
        near = (abs(a - b) <= 1e-6 * b for a, b in zip(run.loss, whole.loss, strict=True))
        bytes_of = [f"{run.ranks[0].memory[term]:,}" for term in terms]
        rows.append((m, *bytes_of, all(near), same_as_estimated(run)))
    return table(rows)


def shrinking(before: Report, after: Report) -> dict[str, float]:
    """By what activations, gradients and peak of rank 0 were divided, to a tenth."""
    return {
        term: round(before.ranks[0].memory[term] / after.ranks[0].memory[term], 1)
        for term in ("activations", "gradients", "peak")
    }


def nearest(options: Iterable[str], number: float) -> str:
    """The option whose number is nearest."""
    return min(options, key=lambda option: abs(float(option) - number))


def policy_names() -> dict[str, str]:
    """What is recomputed, in words."""
    return {
        "none": t("none", "不重计算"),
        "selective": t("attention only", "只重算注意力"),
        "0,2": t("blocks 0 and 2", "第 0、2 层"),
        "full": t("all blocks", "所有层"),
    }


def extra_flops(report: Report) -> float:
    """What recomputation adds, as a share of the model's own FLOPs."""
    return report.flops["hardware"] / report.flops["model"] - 1


def recomputation_table(runs: Mapping[str, Report]) -> Table:
    """Runs by their policy; the first recomputes nothing."""
    rows: list[Sequence[Any]] = [
        (
            t("recomputed", "重计算"),
            t("activations, bytes", "激活值，字节"),
            t("share", "占比"),
            t("peak", "峰值"),
            t("extra FLOPs", "额外 FLOPs"),
            t("losses equal", "损失相同"),
            t("as estimated", "与估算一致"),
        )
    ]
    plain = next(iter(runs.values()))
    base = plain.ranks[0].memory["activations"]
    for policy, run in runs.items():
        memory = run.ranks[0].memory
        rows.append(
            (
                policy_names()[policy],
                f"{memory['activations']:,}",
                percent(memory["activations"] / base),
                f"{memory['peak']:,}",
                percent(extra_flops(run)),
                run.loss == plain.loss,
                same_as_estimated(run),
            )
        )
    return table(rows)


def first_blocks(count: int) -> dict[str, str]:
    """The flag that recomputes the first `count` blocks."""
    return {"recompute": ",".join(map(str, range(count)))}


def _cure_words(more: Mapping[str, Any], layers: int) -> str:
    if "offload" in more:
        return t("the optimizer on the host", "优化器放到主机上")
    if "recompute" in more:
        count = len(more["recompute"].split(","))
        return t(f"{count} of the {layers} blocks recomputed", f"重计算 {layers} 层中的 {count} 层")
    if "global_batch" in more:
        count = more["global_batch"]
        return t(f"{count} micro-batches per step", f"每步 {count} 个微批次")
    return t("as it is", "原样")


def cures_table(job: TrainConfig, cures: Iterable[Mapping[str, Any]], gpu: Cluster) -> Table:
    """`job` on one `gpu` with one cure after the other, each on top of those before: what it needs,
    in GB, and what it costs."""
    from ...estimate import estimate

    rows: list[Sequence[Any]] = [
        (
            "",
            t("states, GB", "模型状态，GB"),
            t("activations", "激活值"),
            t("peak", "峰值"),
            t("fits", "放得下"),
            t("extra FLOPs", "额外 FLOPs"),
            t("seconds per sequence", "每条序列的秒数"),
        )
    ]
    for more in cures:
        job = job.replace(**more)
        plan = estimate(job, gpu)
        memory, time = plan.ranks[0].memory, plan.ranks[0].time
        states = sum(memory[term] for term in STATES)
        rows.append(
            (
                ("+ " if len(rows) > 2 else "") + _cure_words(more, job.model.layers),
                *map(in_gb, (states, memory["activations"], memory["peak"])),
                memory["peak"] < gpu.memory_bytes,
                percent(extra_flops(plan)),
                f"{time['step'] / job.global_batch:.1f}",
            )
        )
    return table(rows)


def published_table() -> Table:
    """Korthikanti et al. 2022, figure 1: GiB on each 80 GB GPU, with tensor parallelism alone, and
    with sequence parallelism and selective recomputation."""
    published = (
        ("22B", 8 * 1, 45.6, 59.3, 9.6),
        ("175B (GPT-3)", 8 * 8, 45.6, 66.8, 12.4),
        ("530B", 8 * 35, 31.6, 114.0, 23.1),
        ("1T", 8 * 64, 33.0, 131.3, 26.6),
    )
    room = 80e9 / 2**30
    head = (
        t("model", "模型"),
        t("GPUs", "GPU 数"),
        t("states, GiB", "模型状态，GiB"),
        t("activations", "激活值"),
        t("fits?", "放得下？"),
        t("sequence parallel + selective", "序列并行 + 选择性"),
        t("fits?", "放得下？"),
    )
    return table(
        [
            head,
            *(
                (name, n, states, plain, states + plain < room, cured, states + cured < room)
                for name, n, states, plain, cured in published
            ),
        ]
    )


Run = Callable[["nn.Module", Any], Any]


def gradient_error(run_block: Run) -> tuple[float, Any]:
    """Eight blocks with dropout, each run by run_block(block, x), always from the same random
    state: the loss and the gradient of all weights."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Dropout(0.1)) for _ in range(8)]
    x = torch.randn(32, 64)
    for block in blocks:
        x = run_block(block, x)
    loss = x.square().sum()
    loss.backward()
    weights = (p for block in blocks for p in block.parameters())
    return loss.item(), torch.cat([p.grad.flatten() for p in weights])


def random_table(ways: Iterable[Run]) -> tuple[Table, list[float]]:
    """No checkpointing, ours, torch's, torch's without its random state: loss, and the gradient's
    error against the first; the losses besides."""
    names = (
        t("no checkpointing", "不用梯度检查点"),
        t("ours", "我们的"),
        t("torch, state restored", "torch，恢复随机状态"),
        t("torch, state not restored", "torch，不恢复"),
    )
    losses, gradients = zip(*map(gradient_error, ways), strict=True)
    whole = gradients[0]
    rows: list[Sequence[Any]] = [("", t("loss", "损失"), t("gradient's error", "梯度的误差"))]
    for name, loss, gradient in zip(names, losses, gradients, strict=True):
        error = ((gradient - whole).norm() / whole.norm()).item()
        rows.append((name, f"{loss:.4f}", percent(error)))
    return table(rows), list(losses)
