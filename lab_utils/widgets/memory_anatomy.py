"""The memory-anatomy tool: what fills a GPU's memory, term by term, for any model, layout and GPU; and does it fit?

One panel of sums (sums.py): the estimator's bytes for the ends of a stage, for a layer and for a micro-batch in flight
(anatomy_costs) are added up in the page, so that some hundred million settings need no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..estimate.hardware import HARDWARE
from ..layout.parameters import parameter_count
from . import anatomy_costs as costs
from . import anatomy_steps as steps
from .anatomy_measured import about, records
from .controls import Challenge, Checkbox, Control, Option, Preset, Select, Slider, State, Words
from .explorer import Explorer
from .sums import Amount, Product, Refusal, Sum, SumPanel, Term
from .sums_scene import HEIGHT, WIDTH
from .units import NO_BREAK, digits

MODELS = {"tiny": "tiny", "gpt2": "GPT-2", "gpt2-xl": "GPT-2 XL", "llama3-8b": "Llama 3 8B", "llama3-70b": "Llama 3 70B", "gpt3-175b": "GPT-3 175B",
          "llama3.1-405b": "Llama 3.1 405B"}  # fmt: skip
GPUS = {"T4": "T4", "RTX4090": "RTX 4090", "A100-40": "A100", "H100-SXM": "H100", "H200": "H200", "B200": "B200"}      # as estimate.hardware names them
PRECISIONS: dict[str, Words] = {"fp32": "fp32", "bf16": ("bf16 autocast", "bf16 自动混合精度"), "bf16-pure": ("bf16, fp32 master weights", "bf16，fp32 主权重")}
OPTIMIZERS: dict[str, Words] = {"adamw": "AdamW", "sgd": ("SGD with momentum", "带动量的 SGD"), "adafactor": "Adafactor", "lion": "Lion",
                                "adam8bit": ("8-bit Adam", "8 位 Adam")}  # fmt: skip
RECOMPUTE: dict[str, Words] = {"none": ("none", "无"), "selective": ("attention only", "仅注意力"), "full": ("every layer", "所有层")}
DEGREES = {"dp": (1, 2, 4, 8, 16, 64), "tp": (1, 2, 4, 8), "pp": (1, 2, 4, 8, 16)}
MICRO_BATCH, MICRO_BATCHES = (1, 2, 4), (1, 2, 8, 32)
START = {"model": "llama3-70b", "gpu": "H100-SXM", "precision": "bf16-pure", "optimizer": "adamw", "micro_batch": 1, "micro_batches": 8, "dp": 16, "tp": 1,
         "pp": 1, "zero": 0, "sequence_parallel": False, "recompute": "none"}  # fmt: skip

LARGEST_MICRO_BATCH = 2         # of the challenge; a test looks whether any layout allows more
KEPT = Path(__file__).with_name("measured") / "memory_anatomy_table.json"
RECORDED = tuple(name for name in START if name != "gpu")
SETUP = ("model", "precision", "micro_batch", "tp", "sequence_parallel", "recompute")      # what saved activations of a micro-batch depend on
REFUSED_BY = (("model", "pp"), ("model", "tp", "sequence_parallel"))                       # what a layout can fail on


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    controls = _controls()
    return Explorer(
        ("GPU memory: what fills it?", "GPU 显存解剖：都被什么占了？"), controls, (_panel(controls),),
        Challenge(
            task=("Llama 3 70B in bf16 with AdamW, sequences of 8,192 tokens, on 16 GPUs of 80 GB, nothing offloaded: make it fit, with the largest "
                  "micro-batch b that any layout here allows.",
                  "在 16 张 80 GB 的 GPU 上用 AdamW 和 bf16 训练 Llama 3 70B，序列长度 8,192，不做卸载："
                  "让它放得下，并使微批次大小 b 达到这里各种布局所允许的最大值。"),
            panel="memory",
        ),
        lang, _presets(),
    )  # fmt: skip


def keep() -> None:
    """Write the table that travels with the package anew, half a minute: after a change in `estimate` that the tests point out."""
    controls = _controls()
    _panel(controls).keep({control.name: control for control in controls})


def _panel(controls: tuple[Control, ...]) -> SumPanel:
    return SumPanel(
        name="memory", width=WIDTH, height=HEIGHT, terms=_terms(), limit=Amount(controls=("gpu",), count=lambda s: (_gpu_bytes(s["gpu"]),)),
        bars=Amount(controls=("pp",), count=lambda s: {1: (0, -1, -1), 2: (1, -1, 3)}.get(s["pp"], (1, 2, 3))),
        moments=(("", ""), (", in the update", "，更新时")),
        bar_names=(("every GPU", "每张卡"), ("first stage", "首个阶段"), ("middle stage", "中间阶段"), ("last stage", "末个阶段")),
        phrases=_phrases(), refusals=tuple(Refusal(controls=names, why=_why) for names in REFUSED_BY),
        numbers={"ranks": ((*(_degree(axis) for axis in DEGREES),),)},
        named=tuple(control for control in controls if control.name in ("model", "gpu")),
        record_controls=RECORDED, records=records(RECORDED), goal=_goal(), kept=KEPT,
    )  # fmt: skip


def _why(state: State, lang: str) -> str | None:
    return costs.refusal(lang, **state)


def _degree(axis: str) -> Amount:
    return Amount(controls=(axis,), count=lambda s: (s[axis],))


def _terms() -> tuple[Term, ...]:
    states = {term: _model_states(term) for term in costs.STATES}
    return (
        Term(name="parameters", label=("parameters", "参数"), fill="blue5", bytes=states["parameters"]),
        Term(name="gradients", label=("gradients", "梯度"), fill="blue3", bytes=states["gradients"]),
        Term(name="optimizer", label=("optimizer states", "优化器状态"), short=("optimizer", "优化器"), fill="blue2", bytes=states["optimizer"]),
        Term(name="gathered", label=("gathered parameters", "聚合的参数"), short=("gathered", "聚合"), fill="sand", moment=0, bytes=_running(costs.gathered)),
        Term(name="buckets", label=("gradient buffers", "梯度缓冲区"), short=("buffers", "缓冲"), fill="stone", moment=0,
             bytes=_running(costs.buckets, "micro_batches")),
        Term(name="activations", label=("saved activations", "保存的激活值"), short=("activations", "激活值"), fill="leaf", moment=0, bytes=_saved()),
        Term(name="weight_copies", label=("copies of weights", "权重副本"), short=("copies", "副本"), fill="moss", moment=0, bytes=_weight_copies()),
        Term(name="temporary", label=("temporary tensors", "临时张量"), short=("temporary", "临时"), fill="blue1", moment=0, bytes=_temporary()),
        Term(name="update", label=("temporary in the update", "更新时的临时张量"), short=("temporary", "临时"), fill="plum", moment=1,
             bytes=_updating()),
    )


def _stages(of: Callable[[costs.Stage], int], *controls: str) -> Amount:
    """A number of each stage that is shown, 0 where there is none; of the pipeline's shape alone."""
    def count(state: State) -> tuple[int, ...]:
        return tuple(stage and of(stage) or 0 for stage in _shown(state))

    return Amount(controls=controls, count=count)


def _shown(state: State) -> tuple[costs.Stage | None, ...]:
    return costs.shown_stages(costs.layers(state.get("model", "gpt3-175b")), state["pp"], state.get("micro_batches", 1))


def _model_states(term: str) -> Sum:
    """A layer's bytes times the stage's layers, and those of its ends."""
    def bytes_of(kind: str, state: State) -> tuple[int]:
        return (costs.model_states(kind, **_what_matters(term, state))[term],)

    controls = ("model", "precision", *(["optimizer"] if term == "optimizer" else []), "zero", "dp", "tp")
    ends = [(Amount(controls=controls, count=partial(bytes_of, kind)), _is(kind)) for kind in costs.KINDS if kind != "middle"]
    return (Amount(controls=controls, count=partial(bytes_of, "layer")), _LAYERS), *ends


def _what_matters(term: str, state: State) -> dict[str, Any]:
    """The same state with what the term does not depend on at its plainest, so that fewer have to be estimated."""
    cut_from = {"parameters": 3, "gradients": 2, "optimizer": 1}[term]
    zero = min(state["zero"], 3 if state["precision"] == "bf16" else cut_from) if state["zero"] >= cut_from else 0
    if zero == 0 < state["zero"] and costs.is_padded(state["model"], "fp32", 1, state["dp"], state["tp"]):
        zero = 1
    precision = "fp32" if state["precision"] == "bf16" and zero < 3 else state["precision"]
    return {"optimizer": "sgd"} | state | {"zero": zero, "dp": state["dp"] if zero else 1, "precision": precision}


def _running(of: Callable[..., int], *more: str) -> Sum:
    """What ZeRO holds while it runs, at most: no sum over layers, so a table of its own."""
    controls = ("model", "precision", "zero", "dp", "tp", *more)

    def count(state: State) -> tuple[int, ...]:
        return tuple(stage and of(stage, **{name: state[name] for name in controls}) or 0 for stage in _shown(state))

    return ((Amount(controls=(*controls, "pp"), count=count),),)


def _amount(of: Callable[..., int], *controls: str) -> Amount:
    return Amount(controls=controls, count=lambda state: (of(**state),))


def _saved() -> Sum:
    return tuple((_amount(partial(steps.saved, part), *SETUP), weight) for part, weight in _IN_FLIGHT.items())


def _weight_copies() -> Sum:
    controls = (*(name for name in SETUP if name != "micro_batch"), "zero")
    return tuple((_amount(partial(steps.weight_copies, part), *controls), weight) for part, weight in _IN_FLIGHT.items() if not part.startswith("row"))


def _temporary() -> Sum:
    """Of the passes, which depend on the micro-batch, and of what ZeRO has on its way, which depends on the shards."""
    passes = tuple((_amount(partial(steps.temporary, kind), *SETUP), _is(kind)) for kind in costs.KINDS)
    between = _amount(steps.messages, *(name for name in SETUP if name != "recompute")), _in_flight("first", "middle", "last")
    return *passes, between, *_by_weights(steps.in_transit, max), _batch()


def _updating() -> Sum:
    return *_by_weights(steps.updating, sum), _batch()


def _batch() -> Product:
    return _amount(steps.batch, "model", "micro_batch"), Amount(controls=("micro_batches",), count=lambda s: (s["micro_batches"],))


def _by_weights(of: Callable[..., int], both_ends: Callable[[list[int]], int]) -> Sum:
    """A layer's part times the stage's layers, and its ends'; where one stage has both ends, `both_ends` of what they have."""
    def count(kinds: tuple[str, ...], state: State) -> tuple[int]:
        plain = {**state, "dp": state["dp"] if state["zero"] else 1}
        return (both_ends([of(kind, **plain) for kind in kinds]),)

    controls = ("model", "precision", "zero", "dp", "tp")
    ends = {"first": ("first",), "middle": ("middle",), "last": ("last",), "only": ("first", "last")}
    return (Amount(controls=controls, count=partial(count, ("layer",))), _LAYERS), \
        *((Amount(controls=controls, count=partial(count, kinds)), _is(stage)) for stage, kinds in ends.items())


def _is(*kinds: str) -> Amount:
    return _stages(lambda stage: int(stage.kind in kinds), "pp")


def _in_flight(*kinds: str) -> Amount:
    return _stages(lambda stage: stage.in_flight * (stage.kind in kinds), "pp", "micro_batches")


def _rows(*kinds: str) -> Amount:
    """m on stages of these kinds, in flight or not."""
    return Amount(controls=("pp", "micro_batches"), count=lambda s: tuple(s["micro_batches"] * int(bool(stage) and stage.kind in kinds) for stage in _shown(s)))


_LAYERS = _stages(lambda stage: stage.layers, "model", "pp")
_IN_FLIGHT = {
    "layer": _stages(lambda stage: stage.layers * stage.in_flight, "model", "pp", "micro_batches"),
    **{kind: _in_flight(kind) for kind in costs.KINDS},
    "once": _is("first", "middle"),        # at the last stage the head holds more, or it is counted with it
    **{f"row {kind}": _rows(kind) for kind in ("only", "first", "last")},
}


def _phrases() -> dict[str, Words]:
    return {
        "subject": ("{model} on {ranks} × {gpu}", "{model}，{ranks} 张 {gpu}"),
        "note": ("Each term at its most, not all at once: hence “at most”. Real runs of tiny and GPT-2 agree to the byte.",
                 "估算值；各项取各自的最大值，未必同时出现，故为“至多”。tiny 与 GPT-2 的真实运行已逐字节核对。"),
        "agree": (
            f"▲ measured in a real run ({about()}): measured = estimated, to the byte.",
            f"▲ 真实运行的实测值（{about().replace(', ', '，')}）：实测 = 估算，逐字节相等。",
        ),
        "differ": (f"▲ measured in a real run ({about()}): measured ≠ estimated.", f"▲ 真实运行的实测值（{about().replace(', ', '，')}）：实测 ≠ 估算。"),
    }  # fmt: skip


def _goal() -> tuple[Amount, ...]:
    """What the challenge asks beside fitting."""
    wanted = {"model": ("llama3-70b",), "gpu": ("H100-SXM",), "optimizer": ("adamw",), "precision": ("bf16", "bf16-pure"),
              "micro_batch": (LARGEST_MICRO_BATCH,)}  # fmt: skip
    ranks = Amount(controls=tuple(DEGREES), count=lambda s: (int(s["dp"] * s["tp"] * s["pp"] == 16),))
    return ranks, *(Amount(controls=(name,), count=partial(_chosen, name, values)) for name, values in wanted.items())


def _chosen(name: str, values: tuple[Any, ...], state: State) -> tuple[int]:
    return (int(state[name] in values),)


def _controls() -> tuple[Control, ...]:
    def at(name: str, values: Iterable[Any]) -> int:
        return list(values).index(START[name])

    def select(name: str, label: Words, options: Mapping[Any, Words]) -> Select:
        return Select(name=name, label=label, options=list(options.items()), start=at(name, options))

    def slider(name: str, label: Words, values: tuple[int, ...]) -> Slider:
        return Slider(name=name, label=label, options=[(value, str(value)) for value in values], start=at(name, values))

    return (
        select("model", ("Model", "模型"), dict(map(_model, MODELS))),
        select("gpu", ("GPU", "GPU"), {name: f"{words} {_gpu_bytes(name) // 10**9}{NO_BREAK}GB" for name, words in GPUS.items()}),
        select("precision", ("Precision", "精度"), PRECISIONS),
        select("optimizer", ("Optimizer", "优化器"), OPTIMIZERS),
        slider("micro_batch", ("Micro-batch b", "微批次大小 b"), MICRO_BATCH),
        slider("micro_batches", ("Micro-batches m", "微批次数 m"), MICRO_BATCHES),
        select("recompute", ("Recompute", "重计算"), RECOMPUTE),
        slider("dp", ("Data parallel d", "数据并行 d"), DEGREES["dp"]),
        slider("zero", ("ZeRO stage", "ZeRO 级别"), (0, 1, 2, 3)),
        slider("tp", ("Tensor parallel t", "张量并行 t"), DEGREES["tp"]),
        Checkbox(name="sequence_parallel", label=("Sequence parallel", "序列并行")),
        slider("pp", ("Pipeline stages p", "流水线阶段数 p"), DEGREES["pp"]),
    )


def _gpu_bytes(name: str) -> int:
    return int(HARDWARE[name].memory_bytes)


def _model(name: str) -> Option:
    """The model's name with its parameters and the length of its sequences."""
    model = costs.config_of(name).model
    count = parameter_count(model)
    scale, unit = next((s, u) for s, u in ((1e9, "B"), (1e6, "M"), (1e3, "k")) if count >= s)
    return name, f"{MODELS[name]} ({digits(count / scale)}{unit}, s = {model.seq:,})"


def _presets() -> tuple[Preset, ...]:
    def preset(label: Words, **state: Any) -> Preset:
        return Preset(label=label, panel="memory", state=START | {"dp": 1, "micro_batches": 1} | state)

    return (
        preset(("tiny, as it runs here", "本机可跑的 tiny"), model="tiny", gpu="T4", precision="fp32"),
        preset(("GPT-2 XL on one RTX 4090", "单张 RTX 4090 上的 GPT-2 XL"), model="gpt2-xl", gpu="RTX4090", precision="bf16"),
        preset(("Llama 3 8B on 8 GPUs", "8 张 GPU 上的 Llama 3 8B"), model="llama3-8b", dp=8, zero=2, recompute="full"),
        # Grattafiori et al. 2024, table 4: 8,192 H100 with TP 8, PP 16, DP 64, 32 sequences to a data-parallel rank; gradients and optimizer sharded
        preset(("Llama 3.1 405B on 8,192 GPUs", "8,192 张 GPU 上的 Llama 3.1 405B"), model="llama3.1-405b", dp=64, tp=8, pp=16, zero=2,
               sequence_parallel=True, micro_batches=32, recompute="full"),
    )  # fmt: skip
