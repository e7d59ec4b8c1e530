"""A small tool with one panel of sums: every shape of table, refusals, records, a goal, presets."""

from __future__ import annotations

from lab_utils.widgets.frame import (
    Amount,
    Checkbox,
    Explorer,
    Preset,
    Refusal,
    Select,
    Slider,
    Step,
    SumPanel,
    Term,
    given,
)
from lab_utils.widgets.frame.controls import State
from lab_utils.widgets.frame.sums_scene import HEIGHT, WIDTH

SIZES = (1, 7, 1125, 999_500, 12_345_678, 3_000_000_000, 1_234_567_890_123)
CONTROLS = (
    Select(
        name="model", label=("Model", "模型"), options=[(n, f"size {n}") for n in SIZES], start=4
    ),
    Slider(name="copies", label=("Copies", "份数"), options=[(n, str(n)) for n in (1, 2, 3, 8)]),
    Slider(
        name="stages", label=("Stages", "阶段数"), options=[(n, str(n)) for n in (1, 2, 4)], start=1
    ),
    Select(
        name="gpu",
        label=("GPU", "显卡"),
        options=[(n, f"{n} bytes") for n in (16_000, 24 * 10**6, 80 * 10**9)],
        start=1,
    ),
    Checkbox(name="thrifty", label=("Thrifty", "节省")),
)
RECORDS = {
    (7, 2, 1): [[7, 7, 16, None]],
    (7, 2, 2): [[7, 0, 0, 28], [0, 7, 16, None]],
    (1125, 3, 2): [[1125, 1, 1, 0], [1, 1, 1, 9]],
}


def why(state: State, lang: str) -> str | None:
    if state["copies"] != 8 or not state["thrifty"]:
        return None
    if lang == "zh":
        return "八份与节省不能同时选择：" + "请改用三份，" * 12 + "或取消节省。"
    return "Eight copies cannot be thrifty: " + "use three copies, " * 9 + "or be lavish."


def panel() -> SumPanel:
    size = Amount(controls=("model",), count=lambda s: (s["model"],))
    first = Amount(controls=("stages",), count=lambda s: (1, 0, 0))
    last = Amount(controls=("stages",), count=lambda s: (int(s["stages"] == 1), 0, 1))
    held = Amount(
        controls=("copies", "thrifty"),
        count=lambda s: (1,) if s["thrifty"] else (s["copies"], 1, 2),
    )
    return SumPanel(
        name="sums",
        width=WIDTH,
        height=HEIGHT,
        terms=(
            Term(
                name="first",
                label=("what the first stage holds", "第一个阶段持有的"),
                short=("first", "首"),
                fill="blue5",
                bytes=((size, first),),
            ),
            Term(name="last", label=("last", "末段"), fill="sand", bytes=((size, last),)),
            Term(
                name="copies",
                label=("copies", "副本"),
                fill="leaf",
                bytes=((size, held), (held,)),
                moment=0,
            ),
            Term(
                name="late",
                label=("late", "后来"),
                fill="moss",
                bytes=((size, first, held), (size, held)),
                moment=1,
            ),
        ),
        limit=Amount(controls=("gpu",), count=lambda s: (s["gpu"],)),
        bars=Amount(
            controls=("stages",),
            count=lambda s: {1: (0, -1, -1), 2: (1, -1, 3), 4: (1, 2, 3)}[s["stages"]],
        ),
        bar_names=(
            ("every rank", "每个 rank"),
            ("first", "首段"),
            ("middle", "中段"),
            ("last", "末段"),
        ),
        moments=(("", ""), (", later", "（后来）")),
        phrases={"subject": ("{model} on {ranks} ranks", "{model}，{ranks} 个 rank")},
        refusals=(Refusal(controls=("copies", "thrifty"), why=why),),
        numbers={
            "ranks": ((Amount(controls=("stages",), count=lambda s: (1000 * s["stages"],)),),)
        },
        record_controls=("model", "copies", "stages"),
        records=RECORDS,
        named=CONTROLS[:1],
        presets=(
            Preset(label=("Large", "大"), state={"model": SIZES[-1], "gpu": 80 * 10**9}),
            Preset(label=("Small", "小"), state={"model": 7, "gpu": 16_000, "thrifty": True}),
        ),
    )


def explorer(lang: str = "en") -> Explorer:
    steps = (
        Step(
            task=("Fit 3 GB.", "放下 3 GB。"),
            needs=(given(CONTROLS, model=3_000_000_000),),
            why=("80 GB are enough.", "80 GB 就够了。"),
            solution={"model": 3_000_000_000, "gpu": 80 * 10**9},
            fits="sums",
        ),
        Step(
            task=("Fit 12 MB in eight copies.", "放下八份 12 MB。"),
            needs=(given(CONTROLS, model=12_345_678, copies=8),),
            why=("It is the copies.", "关键在份数。"),
            solution={"copies": 8, "gpu": 80 * 10**9},
            fits="sums",
        ),
    )
    return Explorer("sums", ("Sums", "求和"), CONTROLS, (panel(),), steps, lang)
