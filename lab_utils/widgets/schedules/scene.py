"""One run: its rate from update to update, and below it the loss that was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, circle, handle, line, path, text
from .grid import COOLDOWNS, EVERY, SEEDS, STEPS, WARMUPS, Setting, about, finals, losses, rate

WIDTH, HEIGHT = 760, 366
_LEFT, _RIGHT = 64, 740
_RATE_TOP, _RATE_FLOOR = 46, 126
_LOSS_TOP, _LOSS_FLOOR = 156, 326
LOW, HIGH = 2.4, 3.2  # losses that fit; what is above runs along the upper edge
NAMES = {
    "constant": ("constant", "恒定"),
    "linear": ("linear", "线性"),
    "cosine": ("cosine", "余弦"),
    "wsd": ("WSD", "WSD"),
    "inverse-sqrt": ("inverse square root", "平方根倒数"),
    "one-cycle": ("one-cycle", "one-cycle"),
}


def chosen(state: State, side: str) -> Setting:
    """The schedule that the controls of one side name."""
    names = ("kind", "rate", "warmup", "cooldown", "end")
    return Setting(*(state[f"{side}_{name}"] for name in names))


def spread(values: Sequence[float]) -> str:
    """The median of the seeds, with the least and the most."""
    return f"{median(values):.3f} ({min(values):.3f} – {max(values):.3f})"


def scene(side: str, state: State, lang: str) -> Scene:
    """Rate above, loss below, over the same updates; the constant rate in grey for comparison."""
    setting = chosen(state, side)
    plain = setting._replace(kind="constant")
    name = t(*NAMES[setting.kind], lang)
    result = t(
        f"{side.upper()} · {name}: held-out loss at the end {spread(finals(setting))}",
        f"{side.upper()} · {name}：最后的留出损失 {spread(finals(setting))}",
        lang,
    )
    other = t(
        f"constant rate {median(finals(plain)):.3f}",
        f"恒定学习率 {median(finals(plain)):.3f}",
        lang,
    )
    items = [text("result", 0, 18, result, "ink", 15, bold=True), *_axes(setting, lang)]
    items += _rate(setting)
    items += [_line("constant", _middle(plain), "soft", 1.5), _band(setting)]
    items += [_line("loss", _middle(setting), "blue4", 2.5)]
    items += [
        line("key-line", 560, 170, 580, 170, "soft", 1.5),
        text("key-words", 586, 174, other, "soft", 12),
        circle("end", _RIGHT, _loss_y(median(finals(setting))), 4, "blue4"),
        *_grips(setting, side),
    ]
    return {"items": items, "alt": result + t("; ", "；", lang) + other + t(".", "。", lang)}


def _x(update: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * update / STEPS


def _rate_y(share: float) -> float:
    return _RATE_FLOOR - (_RATE_FLOOR - _RATE_TOP) * share


def _loss_y(loss: float) -> float:
    inside = min(max(loss, LOW), HIGH)
    return _LOSS_FLOOR - (_LOSS_FLOOR - _LOSS_TOP) * (inside - LOW) / (HIGH - LOW)


def _axes(setting: Setting, lang: str) -> Iterator[Item]:
    yield text("rate-name", _LEFT, _RATE_TOP - 8, t("learning rate", "学习率", lang), "soft", 12)
    for share, words in ((0, "0"), (1, f"{setting.rate:g}")):
        yield line(f"rate-grid{share}", _LEFT, _rate_y(share), _RIGHT, _rate_y(share))
        yield text(f"rate-tick{share}", _LEFT - 8, _rate_y(share) + 4, words, "soft", 12, "end")
    words = t(
        f"held-out loss: median of {len(SEEDS)} seeds; shaded, from the least to the most",
        f"留出损失：{len(SEEDS)} 个种子的中位数，阴影为最小到最大",
        lang,
    )
    yield text("loss-name", _LEFT, _LOSS_TOP - 8, words, "soft", 12)
    for tenth in range(round(10 * LOW), round(10 * HIGH) + 1, 2):
        y = _loss_y(tenth / 10)
        yield line(f"loss-grid{tenth}", _LEFT, y, _RIGHT, y)
        yield text(f"loss-tick{tenth}", _LEFT - 8, y + 4, f"{tenth / 10:.1f}", "soft", 12, "end")
    for update in range(0, STEPS + 1, 5 * EVERY):
        yield text(f"x{update}", _x(update), _LOSS_FLOOR + 17, str(update), "soft", 12, "middle")
    words = t(f"updates · recorded: {about()}", f"更新次数 · 录制：{about()}", lang)
    yield text("x-name", _RIGHT, HEIGHT - 4, words, "soft", 12, "end")


def _rate(setting: Setting) -> Iterator[Item]:
    shares = [rate(setting, update) / setting.rate for update in range(0, STEPS)]
    points = [f"{_x(u):.1f} {_rate_y(s):.1f}" for u, s in enumerate(shares) if u % 4 in (0, 3)]
    yield path("rate", "M" + "L".join(points), "fire", width=2.5)


def _middle(setting: Setting) -> list[float]:
    return [median(values) for values in zip(*losses(setting), strict=True)]


def _points(values: Sequence[float]) -> list[str]:
    """From where the loss has come into the picture, if it ever does."""
    first = next((i for i, value in enumerate(values) if value <= HIGH), 0)
    return [f"{_x(i * EVERY):.1f} {_loss_y(v):.1f}" for i, v in enumerate(values) if i >= first]


def _line(key: str, values: Sequence[float], colour: str, width: float) -> Item:
    return path(key, "M" + "L".join(_points(values)), colour, width=width)


def _band(setting: Setting) -> Item:
    low, high = ([pick(v) for v in zip(*losses(setting), strict=True)] for pick in (min, max))
    outline = _points(low) + _points(high)[::-1]
    return path("band", "M" + "L".join(outline) + "Z", fill="blue2", opacity=0.6)


def _grips(setting: Setting, side: str) -> Iterator[Item]:
    grip = partial(handle, height=_RATE_FLOOR - _RATE_TOP + 12, y=_RATE_TOP - 6)
    if setting.kind != "one-cycle":
        spots = [_x(warmup) for warmup in WARMUPS]
        yield grip("warmup", _x(setting.warmup), control=f"{side}_warmup", spots=spots)
    if setting.kind == "wsd":
        spots = [_x(STEPS - round(share * STEPS)) for share in COOLDOWNS]
        yield grip("cooldown", _x(setting.falls_from), control=f"{side}_cooldown", spots=spots)
