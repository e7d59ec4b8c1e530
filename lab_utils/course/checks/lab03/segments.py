"""Exercise 2: a segment of layers that keeps its inputs and runs again for its backward pass: the
verdict."""

from __future__ import annotations

from random import Random
from typing import Any

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import Observation
from ..verdict import Failure
from . import alone
from .alone import SLACK_BYTES, TOLERANCE, judged
from .segments_case import Case
from .segments_run import Facts, run_cases


def judge(case: Case, f: Facts) -> Failure | None:
    """What came out, what was kept, how often it ran, the gradients, the random numbers, what is
    left."""
    return (
        _output(case, f)
        or _kept(case, f)
        or _runs(case, f)
        or _gradients(case, f)
        or _afterwards(case, f)
    )


def _output(case: Case, f: Facts) -> Failure | None:
    if f.returned is not None:
        return Failure(
            "output",
            t(
                "calling the segment returns the last layer's output.",
                "调用这一段，返回最后一层的输出。",
            ),
            t(f"it returned {f.returned}.", f"返回了 {f.returned}。"),
        )
    if f.output_off > TOLERANCE or f.random_changed:
        kind = "rng.first-run" if case.dropout or f.output_off <= TOLERANCE else "output"
        came = (
            t(
                f"the output is off by {f.output_off:.2g} of its norm.",
                f"输出的偏差是其范数的 {f.output_off:.2g}。",
            )
            if f.output_off > TOLERANCE
            else t(
                "the output is right, but the random generator was left elsewhere.",
                "输出正确，但随机数生成器停在了别处。",
            )
        )
        return Failure(
            kind,
            t(
                "the first run gives what the plain layers give, with the same random numbers.",
                "第一次运行的结果与直接运行这些层相同，用的随机数也相同。",
            ),
            came,
        )
    if not f.output_has_graph:
        return Failure(
            "no-graph",
            t(
                "the output requires a gradient: something in the segment does.",
                "输出需要梯度，因为段里有东西需要梯度。",
            ),
            t(
                "output.requires_grad is False: the backward pass never comes here.",
                "output.requires_grad 是 False：反向传播到不了这里。",
            ),
        )
    return None


def _kept(case: Case, f: Facts) -> Failure | None:
    # the inner segment may keep its own input already; each pass one or two generator states
    segments = 1 + case.nested
    limit = f.input_bytes * segments + 2 * SLACK_BYTES * case.passes * segments
    if f.kept < f.input_bytes:
        return Failure(
            "elsewhere",
            t(
                "between forward and backward the segment's inputs are there,"
                f" {f.input_bytes:,} bytes: nothing else can be computed again from.",
                f"前向与反向之间，这一段的输入都在，{f.input_bytes:,} 字节：重新计算只能靠它们。",
            ),
            t(f"only {f.kept:,} bytes are alive.", f"只有 {f.kept:,} 字节存活。"),
        )
    if f.kept <= limit:
        return None
    return Failure(
        "saved",
        t(
            "between forward and backward no more than the segment's inputs stays,"
            f" {f.input_bytes:,} bytes.",
            f"前向与反向之间，只留下这一段的输入，{f.input_bytes:,} 字节。",
        ),
        t(
            f"{f.kept:,} bytes stay; without any checkpoint it is {f.plain_kept:,}.",
            f"留下了 {f.kept:,} 字节；完全不用梯度检查点是 {f.plain_kept:,} 字节。",
        ),
    )


def _runs(case: Case, f: Facts) -> Failure | None:
    if case.nested:
        return None
    turns = case.passes * (2 if case.again else 1)
    first, both = (2 * turns - case.passes if case.again else turns), 2 * turns
    if set(f.runs) == {both} and set(f.runs_forward) == {first}:
        return None
    return Failure(
        "runs",
        t(
            "each layer runs once in forward and once more in backward.",
            "每一层在前向中运行一次，在反向中再运行一次。",
        ),
        t(
            f"runs of each layer, of {both} that there should be in all:"
            f" {' '.join(map(str, f.runs))}.",
            f"总共应运行 {both} 次，各层实际的次数：{' '.join(map(str, f.runs))}。",
        ),
    )


def _gradients(case: Case, f: Facts) -> Failure | None:
    expected = t(
        "all gradients are those of the plain layers.", "所有梯度都与直接运行这些层时相同。"
    )
    if f.missing:
        return Failure(
            "gradient.parameters",
            expected,
            t(
                f"{f.missing} of {f.parameters} parameters have no gradient.",
                f"{f.parameters} 个参数中有 {f.missing} 个没有梯度。",
            ),
        )
    if f.input_off is None:
        return Failure(
            "gradient.input",
            expected,
            t("no gradient came back to the input.", "没有梯度传回输入。"),
        )
    if f.others_off is None:
        return Failure(
            "arguments",
            expected,
            t(
                "no gradient came back to a further argument that needs one.",
                "需要梯度的其他输入没有得到梯度。",
            ),
        )
    if f.unwanted:
        return Failure(
            "frozen",
            expected,
            t(
                f"{f.unwanted} frozen parameters got a gradient.",
                f"{f.unwanted} 个冻结的参数得到了梯度。",
            ),
        )
    worst = max(f.input_off, f.others_off, f.parameters_off)
    if worst > TOLERANCE:
        return Failure(
            "rng.second-run" if case.dropout else "gradient.value",
            expected,
            t(
                f"input's off by {f.input_off:.2g}, parameters' by {f.parameters_off:.2g}, further"
                f" arguments' by {f.others_off:.2g} of their norm.",
                f"相对偏差：输入 {f.input_off:.2g}，模型参数 {f.parameters_off:.2g}，其他输入"
                f" {f.others_off:.2g}。",
            ),
        )
    return None


def _afterwards(case: Case, f: Facts) -> Failure | None:
    if f.random_left:
        return Failure(
            "rng.left",
            t(
                "after the backward pass the random generator is where it was before it.",
                "反向传播之后，随机数生成器的状态与之前一样。",
            ),
            t(
                "it was somewhere else: the numbers drawn from now on are others than without a"
                " checkpoint.",
                "状态变了：此后抽取的随机数与不用梯度检查点时不同。",
            ),
        )
    if f.in_a_cycle:
        return Failure(
            "leak",
            t(
                "when nobody refers to the output any more it is gone.",
                "没有人再引用输出时，它就应当消失。",
            ),
            t(
                "it refers to itself through ctx, and stays until the garbage collector comes by.",
                "它通过 ctx 引用了自己，要等垃圾回收来了才会消失。",
            ),
        )
    if f.left > SLACK_BYTES:
        return Failure(
            "leak",
            t(
                "after the backward pass nothing stays but gradients.",
                "反向传播之后，除了梯度什么都不留。",
            ),
            t(f"{f.left:,} bytes are still alive.", f"还有 {f.left:,} 字节存活。"),
        )
    return None


def _ended(seen: Observation, case: Case, moment: int) -> Failure:
    failure = alone.ended(seen, case, moment)
    built_no_graph = failure.criterion == "raised" and "does not require grad" in failure.came
    return failure._replace(criterion="graph.second-run") if built_no_graph else failure


def draw(random: Random) -> list[Case]:
    """A plain segment, one with dropout, then one case for each thing that is easily forgotten, in
    any order."""

    def case(criterion: str | None = None, **kind: Any) -> Case:
        inner = tuple(random.choice([64, 80, 96, 128]) for _ in range(random.randint(2, 4)))
        return Case(inner, criterion, seed=random.randint(1, 10**6), **kind)

    special = [
        case("again", again=True),
        case("twice", passes=random.randint(2, 3)),
        case("arguments", arguments=True),
        case("input-without-gradient", needs_gradient=False),
        case("frozen", frozen=(random.randint(0, 1),)),
        case("nested", dropout=random.choice([0.1, 0.3]), nested=True),
        case("keep-as", keep_as=random.choice(["bfloat16", "float16"])),
    ]
    plain = [case(), case(dropout=random.choice([0.1, 0.3, 0.5]))]
    return [*plain, *random.sample(special, len(special))]


def _lines(_: Any) -> tuple[str]:
    sentence = t(
        "Kept: bytes alive between forward and backward, beyond the output. Random numbers go on as"
        " if nothing had run twice.",
        "“保存”指前向与反向之间、输出之外仍存活的字节数。"
        "随机数照常往下走，就像什么都没有运行过第二次。",
    )
    return (sentence,)


def _first(told: Any) -> Facts:
    return told[0][0]


def _most(_: Case, told: Any) -> str:
    f = _first(told)
    most = max(x for x in (f.input_off, f.others_off, f.parameters_off) if x is not None)
    return f"{most:.0e}" if most else "0"


EXERCISE = Exercise(
    check="checkpoint",
    answer="Segment",
    lab="lab03",
    run=run_cases,
    judge=judged(judge),
    columns=(
        Column("segment", "段", lambda case, _: case),
        Column(
            "runs of each layer",
            "每层运行次数",
            lambda _, told: " ".join(map(str, _first(told).runs)),
        ),
        Column(
            "kept without a checkpoint, bytes",
            "不用梯度检查点时保存（字节）",
            lambda _, told: f"{_first(told).plain_kept:,}",
        ),
        Column("kept by yours", "你的实现保存", lambda _, told: f"{_first(told).kept:,}"),
        Column("its inputs", "其输入", lambda _, told: f"{_first(told).input_bytes:,}"),
        Column("gradients off by", "梯度相差", _most),
    ),
    visible=(
        Case((96, 64, 128), seed=1),
        Case((64, 96), dropout=0.2, seed=2),
        Case((64, 64), "again", again=True, seed=3),
        Case((64, 96), "twice", passes=2, seed=4),
        Case((96, 64), "arguments", arguments=True, seed=5),
        Case((64, 96), "input-without-gradient", needs_gradient=False, seed=6),
        Case((64, 96, 64), "frozen", frozen=(0, 2), seed=7),
        Case((64, 64, 64), "nested", dropout=0.1, nested=True, seed=8),
        Case((96, 64), "keep-as", keep_as="bfloat16", seed=9),
    ),
    draw=draw,
    lines=_lines,
    ended=_ended,
)
