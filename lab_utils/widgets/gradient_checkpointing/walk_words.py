"""What the walk through a step says: its three figures, its footnote, and what it amounts to."""

from __future__ import annotations

from ...i18n import t
from ..frame.units import nbytes, percent
from .costs import curve, extra_work, flops
from .measured import RECORDING, measured
from .walk import (
    Moment,
    comes_back,
    part_words,
    peak_moment,
    policy_words,
    runs_twice,
    saved_at,
    shown,
)


def figures_of(policy: str, moment: Moment, lang: str) -> list[tuple[str, str, str]]:
    before, most, after = saved_at(policy, moment)
    name = t(*part_words(moment.part), lang)
    whole = nbytes(curve("none").peak)
    if moment.phase == "forward":
        doing = t(
            f"{name}, forward: {nbytes(after - before)} saved",
            f"{name}前向：保存 {nbytes(after - before)}",
            lang,
        )
    elif runs_twice(policy, moment.part):
        back = nbytes(comes_back(policy, moment))
        doing = t(
            f"{name}: forward again +{back}, then freed",
            f"{name}：再次前向 +{back}，随后释放",
            lang,
        )
    else:
        doing = t(
            f"{name}, backward: {nbytes(before - after)} freed",
            f"{name}反向：释放 {nbytes(before - after)}",
            lang,
        )
    extra = extra_work(policy)
    return [
        (
            t("saved at once, at most", "同时保存的激活值，最多", lang),
            nbytes(curve(policy).peak),
            t(f"{whole} without recomputation", f"不做重计算时为 {whole}", lang),
        ),
        (
            t("extra work", "额外计算", lang),
            f"+{percent(extra)}" if extra else percent(0),
            t("FLOPs done twice, of a plain step's", "重复的浮点运算占普通一步的比例", lang),
        ),
        (t("saved now", "此刻保存的激活值", lang), nbytes(shown(policy, moment)), doing),
    ]


def agrees(policy: str) -> bool | None:
    """Whether the real run showed what is estimated; None where there was none."""
    run = measured(policy)
    return (
        None
        if run is None
        else run.activations == curve(policy).peak and run.flops == flops(policy)
    )


def note(policy: str, lang: str) -> str:
    key = t("Blue: kept; sand: computed again. ", "蓝色：保留；沙色：重新计算得到。", lang)
    match agrees(policy):
        case None:
            return key + t(
                "Estimated; what is ringed below was measured to the byte.",
                "估算值；下图中带圈的已逐字节实测。",
                lang,
            )
        case True:
            conditions = RECORDING.about(lang)
            return key + t(
                f"Left, ▶: measured ({conditions}), the same to byte and FLOP.",
                f"左侧的 ▶ 是实测（{conditions}）：逐字节、逐次运算均相等。",
                lang,
            )
        case _:
            return key + t("Left, ▶: measured, not the same.", "左侧的 ▶ 是实测：不相等。", lang)


def summary(policy: str, figures: list[tuple[str, str, str]], lang: str) -> str:
    peak = t(*part_words(peak_moment(policy).part), lang)
    phase = t(
        peak_moment(policy).phase,
        {"forward": "前向", "backward": "反向"}[peak_moment(policy).phase],
        lang,
    )
    said = policy_words(policy, lang)
    said = said[0].upper() + said[1:]
    return t(
        f"{said}: at most {figures[0][1]} saved at once ({peak}, {phase}), extra work"
        f" {figures[1][1]}. Now {figures[2][1]}; {figures[2][2]}.",
        f"{said}：同时最多保存 {figures[0][1]}（{peak}，{phase}），额外计算 {figures[1][1]}。此刻"
        f" {figures[2][1]}：{figures[2][2]}。",
        lang,
    )
