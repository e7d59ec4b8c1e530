"""The tool of lesson 11: signals through depth, and muP rule by rule; every value was measured."""

from __future__ import annotations

from collections.abc import Sequence

from ...i18n import t
from ..frame.challenge import Need, Step, given
from ..frame.controls import Checkbox, Control, Panel, Select, Slider, State
from ..frame.explorer import Explorer
from . import depth_scene, rules_scene
from .costs import DEPTHS, RULES, WIDTHS, growth, slopes

NETWORK = ("depth", "width", "init", "norm", "activation")
_NAMES = {
    "hidden_init": ("hidden matrices: variance 1/n", "隐藏层矩阵：方差 1/n"),
    "head_init": ("head: variance 1/n²", "输出头：方差 1/n²"),
    "hidden_rate": ("hidden matrices: rate lr/n", "隐藏层矩阵：学习率 lr/n"),
    "head_rate": ("head: rate lr/n", "输出头：学习率 lr/n"),
}


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    controls = _controls()
    return Explorer(
        "initialisation",
        ("Signal through depth", "穿过深度的信号"),
        controls,
        (
            Panel(
                name="depth",
                scene=depth_scene.scene,
                controls=NETWORK,
                width=depth_scene.WIDTH,
                height=depth_scene.HEIGHT,
            ),
            Panel(
                name="rules",
                scene=rules_scene.scene,
                controls=RULES,
                width=rules_scene.WIDTH,
                height=rules_scene.HEIGHT,
            ),
        ),
        _steps(controls),
        lang,
    )


def _controls() -> Sequence[Control]:
    return (
        Slider(
            name="depth", label=("Blocks", "块数"), options=[(n, str(n)) for n in DEPTHS], play=True
        ),
        Slider(name="width", label=("Width", "宽度"), options=[(n, str(n)) for n in WIDTHS]),
        Select(
            name="init",
            label=("Initialisation", "初始化"),
            options=[("gpt2", "GPT-2"), ("xavier", "Xavier"), ("he", "He"), ("mup", "muP")],
            start=2,
        ),
        Select(
            name="norm",
            label=("Norms", "归一化"),
            options=[("none", ("none", "无")), ("post", "post-norm"), ("pre", "pre-norm")],
        ),
        Select(
            name="activation",
            label=("Activation", "激活函数"),
            options=[("gelu", "GELU"), ("swiglu", "SwiGLU")],
        ),
        *(Checkbox(name=rule, label=_NAMES[rule]) for rule in RULES),
    )


def _steps(controls: Sequence[Control]) -> tuple[Step, ...]:
    return (
        Step(
            task=(
                "32 blocks drawn by He: neither the stream nor its gradient may vary by more than a"
                " factor of 20.",
                "用 He 初始化 32 块：残差流和梯度，最大值都不超过最小值的 20 倍。",
            ),
            needs=(given(controls, depth=32, init="he"), _within(20)),
            why=(
                "With norms, what a block adds does not depend on how large the stream is: sums"
                " instead of products.",
                "有了归一化，一块加进去多少就与残差流的大小无关：相加，而不再相乘。",
            ),
            solution={"depth": 32, "norm": "pre"},
        ),
        Step(
            task=(
                "The same depth at width 256 and pre-norm, within a factor of 4.",
                "同样的深度，宽度 256，pre-norm：都不超过 4 倍。",
            ),
            needs=(given(controls, depth=32, width=256, norm="pre"), _within(4)),
            why=(
                "GPT-2 divides what all 64 additions write by √64, so together they weigh as much"
                " as one.",
                "GPT-2 把 64 次写入都除以 √64，合起来只相当于一次。",
            ),
            solution={"depth": 32, "width": 256, "norm": "pre", "init": "gpt2"},
        ),
        Step(
            task=(
                "Lower panel: tick muP's rules until no slope exceeds 0.2. Which single rule hurts"
                " most when it is missing?",
                "下面的图：勾选 muP 的规则，直到没有斜率超过 0.2。单独缺哪一条影响最大？",
            ),
            needs=(Need(controls=RULES, far=_level),),
            why=(
                "The hidden matrices' rate: leave it out, and after four steps their output grows"
                " faster than the width. The head's first values show at step 0 alone; there muP"
                " wants logits that shrink.",
                "隐藏层矩阵的学习率：缺了它，四步之后这些层的输出比宽度增长得还快。"
                "输出头的初始值只在第 0 步看得出来，muP 要那里的 logits 随宽度变小。",
            ),
            solution=dict.fromkeys(RULES, True),
        ),
    )


def _within(limit: float) -> Need:
    def far(state: State, lang: str) -> str | None:
        found = depth_scene.measured(state)
        for name, words in (("stream", ("stream", "残差流")), ("gradient", ("gradient", "梯度"))):
            many = growth(found[name])
            if many > limit:
                return t(
                    f"the {words[0]} varies by a factor of {many:.3g}, {limit:g} at most.",
                    f"{words[1]}的最大值是最小值的 {many:.3g} 倍，上限是 {limit:g} 倍。",
                    lang,
                )
        return None

    return Need(controls=NETWORK, far=far)


def _level(state: State, lang: str) -> str | None:
    found = slopes(rules_scene.kept(state))
    worst = max(found.values())
    if worst <= rules_scene.LEVEL:
        return None
    return t(f"the steepest slope is {worst:+.2f}.", f"最陡的斜率是 {worst:+.2f}。", lang)
