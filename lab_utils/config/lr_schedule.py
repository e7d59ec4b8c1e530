"""The learning rate of every update: warm-up, then one of the usual curves. Needs no torch."""

from __future__ import annotations

from math import cos, pi
from typing import TYPE_CHECKING

from .flag import check, is_number

if TYPE_CHECKING:
    from .train import TrainConfig

# the learning rate that serves our small models, by optimizer; the paper's order for lion
USUAL_LR = {"sgd": 0.1, "lion": 3e-4, "adafactor": 3e-2}
# whose step does not grow with the gradient
ADAM_LIKE = ("adam", "adamw", "lion")
COOLDOWN = 0.2  # WSD: the share of the updates in which the rate falls


def learning_rate(config: TrainConfig, update: int) -> float:
    """The rate of update number `update` (from 0) of a run of `config.steps`.

    `warmup` updates climb in equal steps, the last of them to the full rate, so that none is
    wasted on a rate of 0. Then, with t from 0 (first update at the full rate) to 1 (the last
    update) and `lr_end` the share that is left at its end:

    - constant
    - linear, cosine (Loshchilov and Hutter 2017, "SGDR", without restarts)
    - wsd: constant, and linear in the last fifth of all updates (Hu et al. 2024, "MiniCPM", section
      4; Hägele et al. 2024 measured the fifth)
    - inverse-sqrt: √(w / (update + 1)) with w the warm-up, at least 1 (Vaswani et al. 2017); it
      has no end
    - one-cycle: a cosine up in the first 3/10, a cosine down after (Smith and Topin 2018); its
      climb is the warm-up

    Updates that fp16 skipped are none.
    """
    kind, steps = config.lr_schedule, config.steps
    climb = one_cycle_climb(steps) if kind == "one-cycle" else config.warmup
    if update < climb:
        share = (update + 1) / climb
        if kind == "one-cycle":
            return config.lr * _between(0.04, 1.0, (1 - cos(pi * share)) / 2)
        return config.lr * share
    first = max(climb - 1, 0)  # the update that has the full rate
    t = min(1.0, (update - first) / max(1, steps - 1 - first))
    match kind:
        case "linear":
            share = _between(1.0, config.lr_end, t)
        case "cosine" | "one-cycle":
            share = _between(config.lr_end, 1.0, (1 + cos(pi * t)) / 2)
        case "wsd":
            falling = wsd_cooldown(steps)
            into = max(0, update - (steps - 1 - falling)) / falling
            share = _between(1.0, config.lr_end, min(1.0, into))
        case "inverse-sqrt":
            share = (max(climb, 1) / (update + 1)) ** 0.5
        case _:
            share = 1.0
    return config.lr * share


def wsd_cooldown(steps: int) -> int:
    """Updates in which WSD's rate falls."""
    return max(1, round(COOLDOWN * steps))


def one_cycle_climb(steps: int) -> int:
    """Updates in which one-cycle's rate climbs."""
    return max(1, round(0.3 * steps))


def _between(low: float, high: float, share: float) -> float:
    return low + (high - low) * share


def rate_scale(name: str, config: TrainConfig) -> float:
    """By what a parameter's learning rate is multiplied: under mup, of matrices that grow with the
    model, the width that --lr is meant for ÷ the model's (Yang et al. 2022, "Tensor Programs V",
    table 3, for Adam). The width of an attention head stays, and with it the scale 1/√d: a model
    is widened by more heads."""
    grows = name.endswith(".weight") and not name.split(".")[-2].endswith(("norm", "embedding"))
    return config.mup_base / config.model.hidden if config.init == "mup" and grows else 1.0


def check_rates(config: TrainConfig) -> None:
    """Raise ConfigError for a rate, decay, schedule or initialisation that cannot be meant."""
    _check_mup(config)
    check(
        is_number(config.lr) and config.lr > 0,
        f"--lr must be above 0, not {config.lr!r}.",
        f"--lr 必须大于 0，而不是 {config.lr!r}。",
    )
    check(
        is_number(config.weight_decay) and 0 <= config.weight_decay * config.lr < 1,
        "--weight-decay must be 0 (off) or above, and times --lr below 1 (each update takes that"
        f" share of every weight), not {config.weight_decay!r}.",
        "--weight-decay 必须不小于 0（0 为关闭），且与 --lr 的乘积小于 1"
        f"（每次更新按这个比例缩小权重），而不是 {config.weight_decay!r}。",
    )
    check(
        is_number(config.lr_end) and 0 <= config.lr_end <= 1,
        f"--lr-end is a share of --lr from 0 to 1, not {config.lr_end!r}.",
        f"--lr-end 是相对 --lr 的比例，应在 0 到 1 之间，而不是 {config.lr_end!r}。",
    )
    check(
        not (config.warmup and config.lr_schedule == "one-cycle"),
        "one-cycle climbs by itself, in the first 3/10 of the updates: leave out --warmup, or"
        " choose --lr-schedule cosine.",
        "one-cycle 在前 3/10 的更新里自行升温：请去掉 --warmup，或改用 --lr-schedule cosine。",
    )


def _check_mup(config: TrainConfig) -> None:
    mup = config.init == "mup"
    check(
        not (mup and config.model.tied),
        "mup draws the head narrower than the embedding, so they cannot be one: use --no-tied, or"
        " --init gpt2.",
        "mup 的输出层比嵌入层初始化得更窄，两者不能共享权重：请用 --no-tied，或 --init gpt2。",
    )
    check(
        not mup or config.optimizer in ADAM_LIKE,
        f"mup's learning rates are those of {', '.join(ADAM_LIKE)}, not of {config.optimizer}: use"
        " --optimizer adamw, or --init gpt2.",
        f"mup 的学习率规则适用于 {'、'.join(ADAM_LIKE)}，不适用于 {config.optimizer}：请用"
        " --optimizer adamw，或 --init gpt2。",
    )
