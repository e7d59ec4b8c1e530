"""muP rule by rule: the same GPT in several widths, and how its activations grow with the width
(the coordinate check of Yang et al. 2021, appendix D.1).

A rule that is left out keeps what the smallest width would have, so all choices are one model
there. Heads keep their size, 16, as muP wants it (or scores have to be divided by d, not √d).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from ...config import TrainConfig
from ...data.loader import Loader
from ...model import GPT
from .signal import one_thread, rms

BASE = 32  # the width at which all choices agree
WIDTHS = (32, 64, 128, 256)
RULES = ("hidden_init", "head_init", "hidden_rate", "head_rate")
PLACES = ("attention", "mlp", "stream", "logits")


def shape(width: int, **flags: object) -> TrainConfig:
    """A two-layer GPT of this width, drawn by muP."""
    usual = dict(layers=2, hidden=width, heads=width // 16, seq=32, global_batch=8, init="mup")
    return TrainConfig.of("tiny", **usual | flags)


def mup_groups(model: GPT, lr: float, rules: Collection[str] = RULES) -> list[dict[str, object]]:
    """Adam's parameter groups (Yang et al. 2021, table 3): matrices whose fan-in is a width take
    lr · BASE / width; embeddings, norms and biases take lr."""
    wide = model.config.hidden / BASE
    kinds: dict[str, list[Tensor]] = {"hidden": [], "head": [], "vector": []}
    for name, parameter in model.named_parameters():
        matrix = parameter.dim() == 2 and "embedding" not in name
        kinds["head" if name == "head.weight" else "hidden" if matrix else "vector"].append(
            parameter
        )
    rate = {kind: lr / wide if f"{kind}_rate" in rules else lr for kind in kinds}
    return [{"params": kinds[kind], "lr": rate[kind]} for kind in kinds]


def without(model: GPT, rules: Collection[str]) -> GPT:
    """Draw what no rule covers as wide as at the smallest width."""
    wide = model.config.hidden / BASE
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name == "head.weight" and "head_init" not in rules:
                parameter *= wide
            elif parameter.dim() == 2 and "blocks" in name and "hidden_init" not in rules:
                parameter *= math.sqrt(wide)
    return model


@one_thread
def sizes(config: TrainConfig, rules: Collection[str] = RULES) -> list[dict[str, float]]:
    """For each step, the root mean square at each place: what the last block's attention and MLP
    add, the stream behind it, the logits; always on the first batch."""
    model = without(GPT(config.model, config.seed, config.init), rules)
    optimizer = torch.optim.AdamW(mup_groups(model, config.lr, rules), weight_decay=0.0)
    loader, found, seen = Loader(config), [], {}
    watched = loader.batch(0).micro_batches[0]
    last = model.blocks[-1]
    parts = {"attention": last.attention, "mlp": last.mlp, "stream": last, "logits": model.head}
    hooks = [
        part.register_forward_hook(lambda _, __, out, at=at: seen.update({at: rms(out)}))
        for at, part in parts.items()
    ]
    for step in range(config.steps + 1):
        with torch.no_grad():
            model(watched.tokens)
        found.append(dict(seen))
        if step == config.steps:
            break
        micro = loader.batch(step).micro_batches[0]
        loss, count = model(micro.tokens, micro.targets)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    for hook in hooks:
        hook.remove()
    return found


def slope(widths: Sequence[int], values: Sequence[float]) -> float:
    """The exponent of value ∝ width^exponent, by least squares on logarithms."""
    x, y = [math.log(w) for w in widths], [math.log(v) for v in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    over = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return over / sum((a - mean_x) ** 2 for a in x)
