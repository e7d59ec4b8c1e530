"""What exercise 1 trains, and AdamW in float64: as it should be, and as it usually goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random

import torch
from torch import Tensor, nn

from ....i18n import t

STEPS = 4
LATE = (1, 3)  # the steps in which a `late` parameter has a gradient
# a mistake in the formula, by name, and its criterion; "right" has none
MISTAKES = {
    "l2": "adamw.l2",
    "no-rate": "adamw.rate-in-decay",
    "after": "adamw.order",
    "first-alone": "adamw.bias",
    "second-alone": "adamw.bias",
    "uncorrected": "adamw.bias",
    "ahead": "adamw.counter",
    "together": "adamw.shared",
    "eps-inside": "adamw.eps",
    "eps-first": "adamw.eps",
    "first-rate": "adamw.rate",
    "anew-m": "adamw.kept",
    "anew-v": "adamw.kept",
    "anew-mv": "adamw.kept",
    "anew-mvn": "adamw.kept",
}


@dataclass(frozen=True)
class Case:
    """A model of `blocks` blocks, and how it is trained. `tied`: the head is the embedding, and
    registered before it. `frozen`: one matrix shall not move, though an old gradient hangs on it.
    `late`: a matrix and a gain have gradients in two steps alone. `rates`: the groups' learning
    rates change from step to step, each in its own way."""

    width: int = 6
    blocks: int = 2
    tied: bool = False
    frozen: bool = False
    late: bool = False
    rates: bool = False
    lr: float = 0.05
    weight_decay: float = 0.6
    betas: tuple[float, float] = (0.8, 0.9)
    eps: float = 0.01
    seed: int = 0

    def __str__(self) -> str:
        special = [
            (self.tied, t("head and embedding share a weight", "输出层与嵌入共享权重")),
            (self.frozen, t("one matrix frozen", "冻结一个矩阵")),
            (self.late, t("gradients missing in some steps", "某些步缺少梯度")),
            (self.rates, t("each group its own learning rate", "每组有自己的学习率")),
        ]
        said = [words for holds, words in special if holds] or [t("a plain model", "普通模型")]
        return t(", ", "、").join(said)

    def model(self) -> Probe:
        """Random weights in float64; nothing is 0 or 1, norms and biases neither."""
        torch.manual_seed(self.seed)
        model = Probe(self).double()
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        model.blocks[0].wo.weight.requires_grad_(not self.frozen)
        return model

    def gradients(self, step: int) -> dict[str, Tensor | None]:
        """The gradient of every parameter in a step, by name."""
        random = torch.Generator().manual_seed(1000 * self.seed + step)
        found: dict[str, Tensor | None] = {}
        for name, p in self.model().named_parameters():
            drawn = 0.1 * torch.randn(p.shape, generator=random, dtype=p.dtype)
            found[name] = None if name in self.late_names and step not in LATE else drawn
        return found

    @property
    def late_names(self) -> tuple[str, ...]:
        """Parameters whose gradient is missing in some steps."""
        return ("blocks.1.mix", "blocks.1.gain") if self.late else ()

    @property
    def frozen_names(self) -> tuple[str, ...]:
        """Parameters that must stay."""
        return ("blocks.0.wo.weight",) if self.frozen else ()

    @property
    def tied_name(self) -> str:
        """The shared weight, by its first name."""
        return "out.weight" if self.tied else ""

    def rate(self, step: int, decayed: bool) -> float:
        """The learning rate of a group in a step."""
        return self.lr * (1 + step * (0.5 if decayed else -0.2) * self.rates)


class Block(nn.Module):
    """One of everything that is no embedding: norm, matrices with and without a module, bias,
    gain."""

    def __init__(self, width: int, root_mean_square: bool) -> None:
        super().__init__()
        self.ln = nn.RMSNorm(width) if root_mean_square else nn.LayerNorm(width)
        self.wi = nn.Linear(width, width + 3)
        self.wo = nn.Linear(width + 3, width, bias=False)
        self.mix = nn.Parameter(torch.empty(width, width))
        self.gain = nn.Parameter(torch.empty(width))


class Probe(nn.Module):
    """Modules with parameters; nobody calls it."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        if case.tied:
            self.out = nn.Linear(case.width, 11, bias=False)
        self.wte = nn.Embedding(11, case.width)
        self.wpe = nn.Embedding(5, case.width)
        self.blocks = nn.ModuleList(Block(case.width, i % 2 == 1) for i in range(case.blocks))
        self.ln = nn.LayerNorm(case.width)
        if case.tied:
            self.wte.weight = self.out.weight
        else:
            self.out = nn.Linear(case.width, 11, bias=False)


def decays(case: Case, name: str) -> bool:
    """Whether a parameter of `Probe` is a matrix that is multiplied, and no embedding."""
    matrices = ("wi.weight", "wo.weight", "mix")
    return name.endswith(matrices) or (name == "out.weight" and not case.tied)


@lru_cache(maxsize=64)
def weights(
    case: Case, mistake: str = "right", toggled: bool = False
) -> tuple[dict[str, Tensor], ...]:
    """Every parameter before the first step and after each. `toggled`: decay for whom it is not
    meant, and none for whom it is."""
    found = [{name: p.detach().clone() for name, p in case.model().named_parameters()}]
    count, m, v = (dict[str, float](), dict[str, Tensor](), dict[str, Tensor]())
    b1, b2 = case.betas
    updates = 0
    lost = mistake.removeprefix("anew-") if mistake.startswith("anew-") else ""
    for step in range(STEPS):
        now = dict(found[-1])
        given = case.gradients(step)
        for name in sorted(given, key=lambda name: not decays(case, name)):
            gradient = given[name]
            if gradient is None or name in case.frozen_names:
                continue
            updates += 1
            w, decayed = now[name], decays(case, name)
            count[name] = count.get(name, 0) + 1
            n = updates if mistake == "together" else count[name] + (mistake == "ahead")
            n = 1 if "n" in lost else n
            lr = case.rate(0 if mistake == "first-rate" else step, decayed)
            wd = case.weight_decay * (decayed != toggled)
            if mistake == "l2":
                gradient, wd = gradient + wd * w, 0.0
            old_m = 0.0 if "m" in lost else m.get(name, 0.0)
            old_v = 0.0 if "v" in lost else v.get(name, 0.0)
            m[name] = b1 * old_m + (1 - b1) * gradient
            v[name] = b2 * old_v + (1 - b2) * gradient * gradient
            c1 = 1 if mistake in ("second-alone", "uncorrected") else 1 - b1**n
            c2 = 1 if mistake in ("first-alone", "uncorrected") else 1 - b2**n
            second = v[name] / c2
            below = second.sqrt() + case.eps
            if mistake == "eps-inside":
                below = (second + case.eps).sqrt()
            elif mistake == "eps-first":
                below = (v[name].sqrt() + case.eps) / c2**0.5
            move = lr * (m[name] / c1) / below
            shrink = 1 - (wd if mistake == "no-rate" else lr * wd)
            now[name] = (w - move) * shrink if mistake == "after" else w * shrink - move
        found.append(now)
    return tuple(found)


def draw(random: Random) -> list[Case]:
    """A plain model first, then each of what is special, at last all at once."""

    def drawn(**special: bool) -> Case:
        return Case(
            width=random.randint(5, 8),
            blocks=random.randint(2, 3),
            lr=random.uniform(0.03, 0.08),
            weight_decay=random.uniform(0.4, 0.9),
            betas=(random.uniform(0.6, 0.85), random.uniform(0.88, 0.97)),
            eps=random.uniform(0.005, 0.02),
            seed=random.randint(1, 10**5),
            **special,
        )

    kinds: Iterator[str] = iter(("tied", "frozen", "late", "rates"))
    one_each = [drawn(**{kind: True}) for kind in kinds]
    return [drawn(), *one_each, drawn(tied=True, frozen=True, late=True, rates=True)]
