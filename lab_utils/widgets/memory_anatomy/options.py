"""What can be chosen in the memory-anatomy tool: controls, presets, what it opens with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...estimate.hardware import HARDWARE
from ..frame.controls import Checkbox, Control, Preset, Select, Slider, Words
from ..frame.units import NO_BREAK
from ..frame.words import MODELS, OPTIMIZERS, PRECISIONS, RECOMPUTE, model_option

# as estimate.hardware names them
GPUS = {
    "T4": "T4",
    "RTX4090": "RTX 4090",
    "A100-40": "A100",
    "H100-SXM": "H100",
    "H200": "H200",
    "B200": "B200",
}
# what this course's runs are measured on; a laptop's memory stands for all
CPU, CPU_GB = "cpu", 16
DEGREES = {"dp": (1, 2, 4, 8, 16, 64), "tp": (1, 2, 4, 8), "pp": (1, 2, 4, 8, 16)}
MICRO_BATCH, MICRO_BATCHES = (1, 2, 4), (1, 2, 8, 32)
# the story begins with one GPU, one sequence and the weights alone
START: dict[str, Any] = {
    "filled": 1,
    "model": "llama3-8b",
    "gpu": "H100-SXM",
    "precision": "bf16-pure",
    "optimizer": "adamw",
    "micro_batch": 1,
    "micro_batches": 1,
    "dp": 1,
    "tp": 1,
    "pp": 1,
    "zero": 0,
    "sequence_parallel": False,
    "recompute": "none",
}


def device_bytes(name: str) -> int:
    """Memory of a GPU, or of the CPU that runs the course."""
    return CPU_GB * 10**9 if name == CPU else int(HARDWARE[name].memory_bytes)


def convention(name: str) -> str:
    """Whose kernels a device runs, as estimate.program.conventions names them."""
    return "cpu" if name == CPU else HARDWARE[name].kernels


def controls(terms: Iterable[tuple[str, str]]) -> tuple[Control, ...]:
    """Every control; `terms`: names of what fills a GPU, in its order."""
    gpus: dict[str, Words] = {
        name: f"{words} {device_bytes(name) // 10**9}{NO_BREAK}GB" for name, words in GPUS.items()
    }
    cpu = (f"CPU, {CPU_GB}{NO_BREAK}GB", f"CPU，{CPU_GB}{NO_BREAK}GB")
    return (
        Slider(
            name="filled",
            label=("Fill it", "逐项填入"),
            options=_filled(list(terms)),
            start=START["filled"] - 1,
            play=True,
        ),
        _select("model", ("Model", "模型"), dict(model_option(name, True) for name in MODELS)),
        _select("gpu", ("GPU", "GPU"), gpus | {CPU: cpu}),
        _select("precision", ("Precision", "精度"), PRECISIONS),
        _select("optimizer", ("Optimizer", "优化器"), OPTIMIZERS),
        _slider("micro_batch", ("Micro-batch b", "微批次大小 b"), MICRO_BATCH),
        _slider("micro_batches", ("Micro-batches m", "微批次数 m"), MICRO_BATCHES),
        _select("recompute", ("Recompute", "重计算"), RECOMPUTE),
        _slider("dp", ("Data parallel d", "数据并行 d"), DEGREES["dp"]),
        _slider("zero", ("ZeRO stage", "ZeRO 级别"), (0, 1, 2, 3)),
        _slider("tp", ("Tensor parallel t", "张量并行 t"), DEGREES["tp"]),
        Checkbox(name="sequence_parallel", label=("Sequence parallel", "序列并行")),
        _slider("pp", ("Pipeline stages p", "流水线阶段数 p"), DEGREES["pp"]),
    )


def _filled(terms: list[tuple[str, str]]) -> list[tuple[int, Words]]:
    """Term after term; the last of them makes it complete."""
    every = (f"all {len(terms)} terms", f"全部 {len(terms)} 项")
    first = [(1, terms[0])]
    more = [(i, (f"+ {en}", f"+ {zh}")) for i, (en, zh) in enumerate(terms[1:-1], 2)]
    return [*first, *more, (len(terms), every)]


def _start(name: str, values: Iterable[Any]) -> int:
    return list(values).index(START[name])


def _select(name: str, label: Words, options: Mapping[Any, Words]) -> Select:
    return Select(
        name=name, label=label, options=list(options.items()), start=_start(name, options)
    )


def _slider(name: str, label: Words, values: tuple[int, ...]) -> Slider:
    options = [(value, str(value)) for value in values]
    return Slider(name=name, label=label, options=options, start=_start(name, values))


def presets(terms: int) -> tuple[Preset, ...]:
    """Complete states to look at; none of them solves a step of the challenge."""

    def preset(label: Words, **state: Any) -> Preset:
        return Preset(label=label, state=START | {"filled": terms} | state)

    return (
        preset(
            ("tiny, as it runs here", "本机可跑的 tiny"), model="tiny", gpu=CPU, precision="fp32"
        ),
        preset(
            ("GPT-2 XL on one RTX 4090", "单张 RTX 4090 上的 GPT-2 XL"),
            model="gpt2-xl",
            gpu="RTX4090",
            precision="bf16",
        ),
        preset(("Llama 3 8B on one GPU", "单张 GPU 上的 Llama 3 8B")),
        # Grattafiori et al. 2024, table 4: 8,192 H100 with TP 8, PP 16, DP 64, 32 sequences to a
        # data-parallel rank; gradients and optimizer sharded
        preset(
            ("Llama 3.1 405B on 8,192 GPUs", "8,192 张 GPU 上的 Llama 3.1 405B"),
            model="llama3.1-405b",
            dp=64,
            tp=8,
            pp=16,
            zero=2,
            sequence_parallel=True,
            micro_batches=32,
            recompute="full",
        ),
    )
