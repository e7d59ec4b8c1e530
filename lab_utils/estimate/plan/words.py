"""What the planner says: why one layout loses against another, why a wish makes no sense, and what
would fit."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from ...config import Cluster, ConfigError, ModelConfig, TrainConfig, divisors
from ...i18n import t

if TYPE_CHECKING:
    from .planner import Plan

_PARTS = {
    "compute": (
        "computing (smaller products, or more recomputation)",
        "计算（矩阵乘更小，或重计算更多）",
    ),
    "bubble": ("waiting in the pipeline's bubble", "流水线气泡"),
    "optimizer": ("updating more optimizer states on each GPU", "每张 GPU 更新的优化器状态更多"),
    "network: tp": ("tensor-parallel messages", "张量并行通信"),
    "network: cp": ("keys and values on their way round", "上下文并行通信"),
    "network: pp": ("messages between pipeline stages", "流水线阶段间的通信"),
    "network: dp": ("gradients and weights on the data-parallel wire", "数据并行的梯度与参数通信"),
}

_RESOURCES = {
    "compute": "计算",
    "memory bandwidth": "内存带宽",
    "network: tp": "网络：tp",
    "network: cp": "网络：cp",
    "network: pp": "网络：pp",
    "network: dp": "网络：dp",
    "bubble": "气泡",
    "latency": "延迟",
}


def resource_words(resource: str) -> str:
    """One of step.RESOURCES in the reader's language."""
    return t(resource, _RESOURCES[resource])


def layout_words(config: TrainConfig) -> str:
    """A layout in a few words, the same in both languages."""
    p = config.parallel
    words = [
        f"tp{p.tp}",
        (f"cp{p.cp}" + (" all-to-all" if p.cp_kind == "all-to-all" else "")) if p.cp > 1 else "",
        f"pp{p.pp}" + (f"×{p.virtual_stages}" if p.virtual_stages > 1 else ""),
        f"dp{p.dp}",
        f"zero{p.zero}",
        f"micro-batch {config.micro_batch}",
        f"recompute {config.recompute}",
        p.schedule if p.pp > 1 else "",
    ]
    return " ".join(word for word in words if word)


def why_slower(other: Plan, best: Plan) -> str:
    """One sentence: which part of the step takes longer than in `best`, and by how much."""
    more = {name: other.parts[name] - best.parts[name] for name in other.parts}
    worst = max(more, key=more.__getitem__)
    behind, en, zh = other.seconds / best.seconds - 1, *_PARTS[worst]
    if abs(behind) < 5e-4:
        return t("as fast.", "同样快。")
    if behind < 0:
        return t(f"{-behind:.1%} faster.", f"快 {-behind:.1%}。")
    lost = more[worst] / best.seconds
    return t(
        f"{behind:.1%} slower: {lost:.1%} more of the step goes into {en}.",
        f"慢 {behind:.1%}：{zh}多占一步的 {lost:.1%}。",
    )


def refuse_pins(
    model: ModelConfig, cluster: Cluster, gpus: int, global_batch: int, pins: Mapping[str, Any]
) -> None:
    """Raise ConfigError, with the nearest that works, for a question that has no answer."""
    for name, zh, value in (
        ("GPUs", "GPU 数", gpus),
        ("sequences in the global batch", "全局批次的序列数", global_batch),
    ):
        if not isinstance(value, int) or value < 1:
            raise ConfigError(
                t(
                    f"a plan needs a whole number of {name} from 1 up, not {value!r}.",
                    f"规划所需的{zh}应为不小于 1 的整数，而不是 {value!r}。",
                )
            )
    tp = pins.get("tp", 1)
    if tp > cluster.ranks_per_node:
        within = max(
            d for d in divisors(gpus) if d <= cluster.ranks_per_node and model.kv_heads % d == 0
        )
        raise ConfigError(
            t(
                f"--tp {tp} leaves the node of {cluster.ranks_per_node} GPUs, and its messages"
                f" would wait for the network: use --tp {within}.",
                f"--tp {tp} 超出了单机的 {cluster.ranks_per_node} 张 GPU，通信要走网络：请使用 --tp"
                f" {within}。",
            )
        )
    if model.kv_heads % tp:
        fits = [
            d for d in divisors(model.kv_heads) if d <= cluster.ranks_per_node and gpus % d == 0
        ]
        near = min(fits, key=lambda d: abs(d - tp))
        raise ConfigError(
            t(
                f"--tp {tp} does not divide the {model.kv_heads} key/value heads: use --tp {near}.",
                f"--tp {tp} 不能整除 {model.kv_heads} 个键值头：请使用 --tp {near}。",
            )
        )
    fixed = {axis: pins.get(axis, 1) for axis in ("tp", "pp", "cp")}
    if gpus % (together := prod(fixed.values())):
        near = max(gpus // together, 1) * together
        flags = " × ".join(f"--{axis} {n}" for axis, n in fixed.items() if axis != "cp" or n > 1)
        raise ConfigError(
            t(
                f"{flags} does not divide {gpus} GPUs: use --gpus {near}.",
                f"{flags} 不能整除 {gpus} 张 GPU：请使用 --gpus {near}。",
            )
        )
    micro = pins.get("micro_batch", 1)
    if not any(
        global_batch % dp == 0 and global_batch // dp % micro == 0
        for dp in _possible_dp(model, cluster, gpus, pins)
    ):
        least = min(_possible_dp(model, cluster, gpus, pins)) * micro
        near = max(least, round(global_batch / least) * least)
        raise ConfigError(
            t(
                f"--global-batch {global_batch} cannot be shared out equally over {gpus} GPUs: use"
                f" --global-batch {near}.",
                f"--global-batch {global_batch} 无法由 {gpus} 张 GPU 平分：请使用 --global-batch"
                f" {near}。",
            )
        )


def _possible_dp(
    model: ModelConfig, cluster: Cluster, gpus: int, pins: Mapping[str, Any]
) -> list[int]:
    tps = (
        [pins["tp"]]
        if "tp" in pins
        else [d for d in divisors(gpus) if d <= cluster.ranks_per_node and model.kv_heads % d == 0]
    )
    cp = pins.get("cp", 1)
    return [
        gpus // (tp * cp * pp)
        for tp in tps
        for pp in (
            [pins["pp"]]
            if "pp" in pins
            else [d for d in divisors(gpus // (tp * cp)) if d <= model.layers]
        )
        if gpus >= tp * cp * pp
    ]


def nothing_fits(
    smallest: tuple[TrainConfig, float] | None,
    room: float,
    gpus: int,
    *,
    freed: tuple[str, TrainConfig] | None = None,
    wider: int | None = None,
) -> str:
    """What the layout that needs least would need, and what would make one fit."""
    if freed:
        name, config = freed
        value = (
            getattr(config, name, None) if hasattr(config, name) else getattr(config.parallel, name)
        )
        flag, words = f"--{name.replace('_', '-')} {value}", layout_words(config)
        en, zh = f"{flag} fits ({words}).", f"改用 {flag} 即可（{words}）。"
    elif wider:
        en, zh = f"{wider:,} GPUs are enough.", f"{wider:,} 张 GPU 就够。"
    else:
        en, zh = (
            "take GPUs with more memory, or shorter sequences.",
            "请换显存更大的 GPU，或缩短序列。",
        )
    if smallest is None:
        return t(
            f"no layout uses all {gpus:,} GPUs with this batch: {en}",
            f"没有哪种布局能在这一批次下用满 {gpus:,} 张 GPU：{zh}",
        )
    config, held = smallest
    return t(
        f"nothing fits on {gpus:,} GPUs: the smallest layout ({layout_words(config)}) needs"
        f" {held / 1e9:,.0f} GB a GPU, {room / 1e9:,.0f} are free; {en}",
        f"{gpus:,} 张 GPU 放不下：占用最小的布局（{layout_words(config)}）每张也需要"
        f" {held / 1e9:,.0f} GB，可用 {room / 1e9:,.0f} GB；{zh}",
    )
