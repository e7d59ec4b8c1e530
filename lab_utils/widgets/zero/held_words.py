"""What the panel of bytes per rank says: three figures, a footnote, and what it amounts to."""

from __future__ import annotations

from ...i18n import t
from ..frame.controls import say
from ..frame.units import NO_BREAK, nbytes, percent
from .costs import BETWEEN_STEPS, GPUS_GB, WHILE_RUNNING, Setting, fits, memory, on_gpu
from .measured import RECORDING, TERMS, measured_memory
from .walk import STAGES, stage_words
from .walk_words import capital


def words(term: str, lang: str) -> str:
    """A term's name."""
    return t(
        *{
            "parameters": ("parameters", "参数"),
            "gradients": ("gradients", "梯度"),
            "optimizer": ("optimizer states", "优化器状态"),
            "gathered": ("gathered parameters", "收集的参数"),
            "buckets": ("gradient buffers", "梯度缓冲区"),
            "offloaded": ("in the host's memory", "主机内存中"),
        }[term],
        lang,
    )


def row_name(stage: str, lang: str) -> str:
    """What stands beside a stage's bar."""
    return {
        "0": t("0 · plain DP", "0 · 普通 DP", lang),
        "offload": t("3 + offload", "3 + 卸载", lang),
    }.get(stage, f"ZeRO-{stage}")


def verdict(setting: Setting, stage: str, lang: str) -> str:
    """Which of the GPUs it fits into."""
    fitting = [gigabytes for gigabytes in GPUS_GB if fits(setting, stage, gigabytes)]
    if not fitting:
        return t(f"too much for {GPUS_GB[-1]} GB", f"{GPUS_GB[-1]} GB 也放不下", lang).replace(
            " GB", f"{NO_BREAK}GB"
        )
    return t(f"fits in {fitting[0]} GB", f"{fitting[0]} GB 放得下", lang).replace(
        " GB", f"{NO_BREAK}GB"
    )


def figures_of(setting: Setting, stage: str, lang: str) -> list[tuple[str, str, str]]:
    held, plain = memory(setting, stage), on_gpu(memory(setting, "0"))
    states, buffers = on_gpu(held, BETWEEN_STEPS), on_gpu(held, WHILE_RUNNING)
    total = states + buffers
    parts = t(
        f"{nbytes(states)} + at most {nbytes(buffers)} of buffers",
        f"常驻 {nbytes(states)} + 缓冲区至多 {nbytes(buffers)}",
        lang,
    )
    host = nbytes(held["offloaded"])
    return [
        (
            t("each rank holds, at most", "每个 rank 至多占用", lang),
            nbytes(total),
            (
                parts
                if buffers
                else t("model states, no buffers besides", "模型状态，没有额外的缓冲区", lang)
            ),
        ),
        (
            t("does it fit?", "放得下吗？", lang),
            verdict(setting, stage, lang),
            (
                t(f"and {host} in the host's memory", f"另有 {host} 在主机内存中", lang)
                if held["offloaded"]
                else t("activations come on top", "激活值另算", lang)
            ),
        ),
        (
            t("of what plain data parallelism holds", "与普通数据并行相比", lang),
            percent(total / plain),
            t(f"of {nbytes(plain)}", f"普通数据并行为 {nbytes(plain)}", lang),
        ),
    ]


def agrees(setting: Setting, stage: str) -> bool | None:
    """Whether what was measured is what is estimated, in every term; None where nothing was
    measured."""
    measured = measured_memory(setting, stage)
    return measured and all(measured[term] == memory(setting, stage)[term] for term in TERMS)


def footnote(setting: Setting, lang: str) -> str:
    verdicts = [agrees(setting, stage) for stage in STAGES]
    about = RECORDING.about(lang)
    if any(verdict is not None for verdict in verdicts):
        equal = (
            t("measured = estimated, to the byte", "实测 = 估算，逐字节相等", lang)
            if all(verdicts)
            else t("measured ≠ estimated", "实测 ≠ 估算", lang)
        )
        note = t(
            f"▲ measured in real runs ({about}): {equal}.",
            f"▲ 真实运行的实测值（{about}）：{equal}。",
            lang,
        )
    else:
        note = t(
            "Estimated, without activations: the same with CPU's and CUDA's kernels. 1 GB is 10⁹"
            " bytes.",
            "估算值，不含激活值；换用 CPU 或 CUDA 的算子内核都一样。1 GB = 10⁹ 字节。",
            lang,
        )
    return note


def summary(setting: Setting, stage: str, lang: str) -> str:
    held, ranks = memory(setting, stage), setting.ranks
    terms = [f"{words(term, lang)} {nbytes(held[term])}" for term in TERMS if held[term]]
    name = capital(say(stage_words(stage), lang))
    said = t(
        f"{name} on {ranks:,} ranks: at most {nbytes(on_gpu(held))} each,"
        f" {verdict(setting, stage, lang)}: {', '.join(terms)}.",
        f"{ranks:,} 个 rank，{name}：每个 rank 至多"
        f" {nbytes(on_gpu(held))}，{verdict(setting, stage, lang)}。其中{'、'.join(terms)}。",
        lang,
    )
    if agrees(setting, stage):
        said += t(
            " Measured in a real run: the same to the byte.",
            "真实运行的实测值与此逐字节相等。",
            lang,
        )
    return said
