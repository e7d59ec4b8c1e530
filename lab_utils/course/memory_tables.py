"""Tables of lesson 03, and the measurements behind them that are not its idea."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..config import Cluster, TrainConfig
from ..i18n import t
from ..report import Report
from ..text import Table, table

if TYPE_CHECKING:
    from torch import nn

    from ..data.loader import MicroBatch
    from ..measure.curve import Reading

STATES = ("parameters", "gradients", "optimizer")


def held_table(memory: Mapping[str, Any], of: str) -> Table:
    """What fills a GPU, in GB: weights, gradients, optimizer, saved tensors, and the peak. `of`: of
    what run, for the head."""
    words = {
        "parameters": t("weights, bf16", "权重，bf16"),
        "gradients": t("gradients, bf16", "梯度，bf16"),
        "optimizer": t("optimizer: fp32 weights and two moments", "优化器：fp32 权重与两个矩"),
        "activations": t("saved for the backward pass", "为反向传播保存的张量"),
        "peak": t("most at one moment", "同一时刻的最大值"),
    }
    return table([(of, "GB"), *((name, _gb(memory[term])) for term, name in words.items())])


def _gb(nbytes: float) -> str:
    return f"{nbytes / 1e9:.1f}"


# -- a block's layers ------------------------------------------------------------------------------


def kept_by_layer(model: nn.Module, block: nn.Module, batch: MicroBatch) -> dict[str, int]:
    """Bytes that each layer of `block` keeps for the backward pass, in the order of the forward
    pass; "gelu" is what lies between the MLP's two products."""
    from ..measure.memory import SavedActivations

    readings: list[tuple[str, int]] = []
    hooks = []
    for name, module in block.named_modules():
        if name and name not in ("attention", "mlp"):

            def before(*_: Any, name: str = name) -> None:
                readings.append(("gelu" if name == "mlp.down" else "", saved.now))

            def after(*_: Any, name: str = name) -> None:
                readings.append((name, saved.now))

            hooks += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    with SavedActivations(model) as saved:
        model(*batch)
    for hook in hooks:
        hook.remove()
    kept: dict[str, int] = {}
    for (_, start), (name, end) in zip(readings, readings[1:], strict=False):
        if name:
            kept[name] = kept.get(name, 0) + end - start
    return kept


def layers_table(kept: Mapping[str, int], unit: int) -> Table:
    """`kept_by_layer`'s bytes in units, and what they are."""
    what = {
        "attention_norm": t("its input: the residual stream", "它的输入：残差流"),
        "attention.query": t(
            "its input, shared with key and value", "它的输入，与 key、value 共用"
        ),
        "attention.core": t("q, k, v, and what attention gives", "q、k、v，以及注意力的输出"),
        "mlp_norm": t("its input: the residual stream again", "它的输入：又是残差流"),
        "mlp.up": t("its input", "它的输入"),
        "gelu": t("its input, four times as wide", "它的输入，宽度是 4 倍"),
        "mlp.down": t("its input: GELU's output", "它的输入：GELU 的输出"),
    }
    nothing = t("nothing new", "没有新的")
    head = (t("layer", "部件"), t("streams kept", "留下几份"), t("what it is", "是什么"))
    return table(
        [head, *((name, f"{n / unit:.2f}", what.get(name, nothing)) for name, n in kept.items())]
    )


# -- growth and optimizers -------------------------------------------------------------------------


def saved_by(**flags: Any) -> int:
    """Bytes that the forward pass of a tiny GPT really saves: two sequences of 128 tokens unless
    `flags` say otherwise."""
    from ..data.loader import Loader
    from ..measure.memory import SavedActivations
    from ..model import GPT

    config = TrainConfig.of("tiny", **{"seq": 128, "micro_batch": 2, "global_batch": 8} | flags)
    model, micro = GPT(config.model), Loader(config).batch(0).micro_batches[0]
    with SavedActivations(model) as saved:
        model(*micro)
    return saved.peak


def growth_table(growth: Mapping[str, float]) -> Table:
    """By how much each doubling multiplies the saved bytes."""
    names = {
        "micro": t("micro-batch 2 → 4", "微批次 2 → 4"),
        "layers": t("layers 4 → 8", "层数 4 → 8"),
        "fused": t("sequence 128 → 256, fused attention", "长度 128 → 256，融合的注意力"),
        "written": t("sequence 128 → 256, written out", "长度 128 → 256，逐步写出"),
    }
    head = t("doubled", "翻倍的"), t("saved bytes grow by a factor of", "保存的字节变为几倍")
    return table([head, *((names[key], f"{factor:.2f}") for key, factor in growth.items())])


def optimizer_names() -> dict[str, str]:
    """The optimizers that the lesson compares, in words."""
    return {
        "sgd": t("SGD with momentum", "带动量的 SGD"),
        "lion": "Lion",
        "adamw": "AdamW",
        "adafactor": "Adafactor",
        "adam8bit": t("8-bit Adam", "8 位 Adam"),
    }


def optimizer_bytes(model: str, kind: str) -> int:
    """What the optimizer holds of a model in fp32, as estimated."""
    from ..estimate.memory import model_state_bytes

    return model_state_bytes(TrainConfig.of(model, optimizer=kind, global_batch=1))["optimizer"]


def held_by_optimizer(kind: str) -> int | None:
    """What torch's optimizer really holds of the tiny GPT after a step; None where torch has no
    such optimizer."""
    import torch

    from ..measure.memory import storage_bytes
    from ..model import GPT

    makers = {
        "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
        "adamw": torch.optim.AdamW,
        "adafactor": torch.optim.Adafactor,
    }
    if kind not in makers:
        return None
    model = GPT(TrainConfig.of("tiny", global_batch=1).model)
    optimizer = makers[kind](list(model.parameters()))
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    return storage_bytes(
        x for state in optimizer.state.values() for x in state.values() if torch.is_tensor(x)
    )


def optimizers_table(parameters: int) -> Table:
    """Estimated and measured bytes of the tiny GPT, and by the same rules those of Llama 3 8B,
    which has so many `parameters`."""
    rows: list[Sequence[Any]] = [
        (
            "",
            t("estimated, tiny", "估算，tiny"),
            t("measured, tiny", "实测，tiny"),
            t("Llama 3 8B, GB", "Llama 3 8B，GB"),
            t("bytes per parameter", "每个参数的字节数"),
        )
    ]
    for kind, name in optimizer_names().items():
        large, measured = optimizer_bytes("llama3-8b", kind), held_by_optimizer(kind)
        rows.append(
            (
                name,
                f"{optimizer_bytes('tiny', kind):,}",
                "–" if measured is None else f"{measured:,}",
                _gb(large),
                f"{large / parameters:.2f}",
            )
        )
    return table(rows)


def formulas_table(fused: str, written: str, recomputed: str, llama: str) -> Table:
    """Formulas of the bytes that a block keeps, beside what the block is."""
    blocks = (
        (t("this block, fused", "这种层，融合"), fused),
        (t("written out", "逐步写出"), written),
        (t("recomputed", "重计算"), recomputed),
        (t("Llama 3 8B, CUDA", "Llama 3 8B，CUDA"), llama),
    )
    head = t("block", "层"), t("bytes kept for one micro-batch", "一个微批次要留下的字节")
    return table([head, *blocks])


# -- the peak --------------------------------------------------------------------------------------


def curve_of(config: TrainConfig) -> list[Reading]:
    """Live bytes after each operation of a steady step; for `launch`, on one rank."""
    from ..data.loader import Loader
    from ..measure.curve import memory_curve
    from ..parallel.mesh import Mesh
    from ..train.engine import OurEngine

    engine = OurEngine(config, Mesh(config.parallel))
    first, second = Loader(config.replace(steps=2))
    engine.forward_backward(first)
    engine.update()
    return memory_curve(engine, second)


def place_of(phase: str, part: str) -> str:
    """Where in a step something happens: "forward", "loss", "middle" of the backward pass, or
    "update"."""
    if part == "predict":
        return "loss"
    return {"forward": "forward", "update": "update"}.get(phase, "middle")


def tops(moments: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    """The most bytes alive while each block works, forward and backward, from (phase, part,
    bytes)."""
    found: dict[tuple[str, str], int] = {}
    for phase, part, nbytes in moments:
        if part.startswith("blocks"):
            found[phase, part] = max(nbytes, found.get((phase, part), 0))
    return found


def measured_tops(readings: Iterable[Reading]) -> dict[tuple[str, str], int]:
    """`tops` of a measured curve."""
    return tops((r.phase, r.part, r.live_bytes) for r in readings)


def estimated_tops(config: TrainConfig) -> dict[tuple[str, str], int]:
    """`tops` of the estimate's own curve."""
    from ..estimate.memory.curve import step_curve

    return tops(
        (m.phase, ".".join(m.label.split(".")[:2]), m.peak_bytes) for m in step_curve(config)
    )


def _run_words(run: Report) -> str:
    config = TrainConfig.from_dict(run.config)
    count, vocab = config.global_batch, config.model.vocab
    tokens = count * config.model.seq
    weights = "bf16" if config.precision == "bf16-pure" else "fp32"
    return t(
        f"{tokens} tokens, {vocab:,} words, {weights}", f"{tokens} 个词元，词表 {vocab}，{weights}"
    )


def peaks_table(runs: Iterable[tuple[Report, Report]]) -> Table:
    """Of what each peak consists, of (measured, estimated)."""
    terms = {
        "activations": t("activations", "激活值"),
        "temporary": t("temporary", "临时张量"),
        "optimizer": t("optimizer", "优化器"),
        "parameters": t("parameters", "参数"),
        "gradients": t("gradients", "梯度"),
    }
    rows: list[Sequence[Any]] = [
        ("", t("peak, bytes", "峰值，字节"), *terms.values(), t("equal", "一致"))
    ]
    for run, expected in runs:
        memory, foreseen = run.ranks[0].memory, expected.ranks[0].memory
        shares = [f"{memory['at_peak'].get(term, 0) / memory['peak']:.0%}" for term in terms]
        same = memory["at_peak"] == foreseen["at_peak"]
        rows.append((_run_words(run), f"{memory['peak']:,}", *shares, same))
    return table(rows)


# -- cures -----------------------------------------------------------------------------------------


def same_as_estimated(run: Report) -> bool:
    """Whether every byte of a run is as estimated from its configuration."""
    from ..comparison import compare
    from ..estimate import estimate

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
                f"{memory['activations'] / base:.0%}",
                f"{memory['peak']:,}",
                f"{extra_flops(run):.0%}",
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
    from ..estimate import estimate

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
                *map(_gb, (states, memory["activations"], memory["peak"])),
                memory["peak"] < gpu.memory_bytes,
                f"{extra_flops(plan):.0%}",
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
        "GPU",
        t("states, GiB", "模型状态，GiB"),
        t("activations", "激活值"),
        t("fits?", "放得下？"),
        t("SP + selective", "序列并行 + 选择性"),
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
        rows.append((name, f"{loss:.4f}", f"{error:.0%}"))
    return table(rows), list(losses)
