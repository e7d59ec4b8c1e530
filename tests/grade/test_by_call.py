"""Answers that are functions of plain values: the function in a room, its check outside. A few in
every test run, the solution and a wrong answer of each in `make test-all`, every planted one with
LAB_EXHAUSTIVE=2 (test_by_check.py)."""

from __future__ import annotations

from collections import namedtuple
from fractions import Fraction

import numpy as np
import pytest
import torch
from classroom import planted
from pairs import EXHAUSTIVE
from test_by_check import OUTSIDE, STEM, meant, verdict
from test_rooms import LACKS, nothing_left  # noqa: F401

from lab_utils.course.activations import leaky
from lab_utils.grade.crew import Crew
from lab_utils.grade.judges import judges_of
from lab_utils.grade.judges.by_call import called
from lab_utils.grade.judges.judge import mark
from lab_utils.grade.limits import Limits
from lab_utils.grade.submission import Program
from lab_utils.grade.values import Foreign, numbers, packed, unpacked
from lab_utils.measure.roofline import Dot

SOME = sorted(OUTSIDE) if EXHAUSTIVE else ["rate_factor", "clip_gradients", "global_norm"]
in_rooms = pytest.mark.skipif(bool(LACKS), reason=f"this machine gives no such room: {LACKS}")


def sent(value, trusted=True):
    """What arrives of a value."""
    tensors = []
    words = packed(value, tensors)
    return unpacked(words, [x.clone() for x in tensors], trusted)


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 0.1, float("inf"), "字", [], (1, [2, (3,)]), {"a": 1, 2: (None,)}, [{}, ()]],
)
def test_plain_values_arrive_as_they_are(value):
    came = sent(value, trusted=False)
    assert came == value
    assert type(came) is type(value)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64])
def test_tensors_arrive_with_every_bit(dtype):
    value = torch.arange(6).view(2, 3).to(dtype)
    [came] = sent([value])
    assert came.dtype == dtype
    assert torch.equal(came, value)


def test_named_tuples_go_in_with_their_names_and_come_out_as_tuples():
    layer = namedtuple("Layer", "input_bytes saved_bytes")(1, 2)
    layer.__class__.__module__ = "lab_utils.course.checks.lab03.plans_run"  # no room can import it
    assert sent(layer).saved_bytes == 2
    dot = sent(Dot("product", 6.0, 3.0, 1.0))
    assert isinstance(dot, Dot)
    assert dot.intensity == 2
    assert sent(layer, trusted=False) == (1, 2)


def test_functions_and_generators_go_in():
    act, generator = sent([leaky, torch.Generator().manual_seed(1)])
    assert act is leaky
    again = sent([leaky, torch.Generator().manual_seed(1)])[1]
    assert torch.equal(torch.rand(3, generator=generator), torch.rand(3, generator=again))


class Equal:
    """To everything."""

    def __eq__(self, other):
        return True

    def __repr__(self):
        return "[1, 2]"


class EqualText(str):
    __eq__ = Equal.__eq__
    __hash__ = str.__hash__


def test_what_is_no_plain_value_arrives_as_what_it_is_worth():
    came = sent(Equal(), trusted=False)
    assert isinstance(came, Foreign)
    assert came != [1, 2]
    assert repr(came) == "[1, 2]"
    assert type(sent(EqualText("a"))) is str
    assert sent(EqualText("a")) != "b"
    assert type(sent(np.float64(0.5))) is float
    assert float(sent(Fraction(1, 4))) == 0.25
    assert list(sent(np.arange(2.0))) == [0.0, 1.0]
    with pytest.raises(TypeError, match="is no number"):
        float(sent(Equal()))
    assert isinstance(sent(torch.Generator(), trusted=False), Foreign)
    lazy = torch.zeros(1).as_subclass(type("Lazy", (torch.Tensor,), {}))
    assert repr(sent(lazy, trusted=False)) == "Lazy"
    assert type(sent(np.longdouble(0.5))) is float


def test_numbers_are_those_of_lists_and_tensors():
    assert numbers(sent([1, 0.5, np.float32(2), Fraction(1, 4)])) == [1, 0.5, 2, 0.25]
    assert numbers(sent(torch.eye(2))) == [1, 0, 0, 1]
    assert numbers(sent(np.arange(2.0))) == [0, 1]
    for no in (None, 3, "12", ["1"], [[1]], {1: 2}, [Equal()]):
        assert numbers(sent(no)) is None, no


def test_an_argument_that_cannot_travel_is_the_judges_fault():
    with pytest.raises(TypeError, match=r"\{1\} cannot be passed to an answer"):
        called([None], "f", [({"a": [{1}]},)])
    with pytest.raises(ValueError, match="2 ranks, and arguments for 1"):
        called([None, None], "f", [()])


def test_a_room_names_nothing_that_is_imported_or_made_here():
    for words in ({"named": ["os:system", ["x"], ["true"]]}, {"activation": "x"}, {"seed": 1}):
        assert not callable(unpacked(words, []))


@in_rooms
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SOME)
def test_the_solution_and_a_wrong_answer(name):
    every = [one for one in planted(STEM[name]) if one.check == name]
    wrong = next(one for one in every if one.criterion not in (None, "raised"))
    assert verdict(every[0]) is None
    assert verdict(wrong) == meant(wrong)


FORGERS = {
    "looks for the right factors": "    from lab_utils.course.checks.lab13 import right\n"
    "    return right.right_factor(kind, update, total, warmup, floor, cooldown)",
    "patches whoever judges": "    import gc, types\n"
    "    for one in gc.get_objects():\n"
    "        if isinstance(one, types.FunctionType) and one.__name__ in ('judge', 'mark'):\n"
    "            one.__code__ = (lambda *_: None).__code__\n"
    "    return 1.0",
    "is equal to everything": "    class Equal(float):\n"
    "        __eq__ = __lt__ = __le__ = lambda *_: True\n"
    "        __abs__ = __sub__ = __mul__ = __rmul__ = __float__ = lambda self, *_: self\n"
    "    return Equal(0.3)",
    "asks its callers": "    import sys\n"
    "    frame = sys._getframe()\n"
    "    while frame:\n"
    "        for value in list(frame.f_locals.values()):\n"
    "            if hasattr(value, 'right'):\n"
    "                return value.right()[update]\n"
    "        frame = frame.f_back\n"
    "    return 0.0",
}


@in_rooms
@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", FORGERS)
def test_who_forges_its_own_process_gains_nothing(what):
    head = "def rate_factor(kind, update, total, warmup, floor, cooldown=0):\n"
    judge = next(j for j in judges_of("lab13") if j.check == "rate_factor")
    with Crew(Limits(wall_s=120)) as crew:
        marks = mark(judge, Program(head + FORGERS[what] + "\n", ""), crew, "forgers")
    assert [one.passed for one in marks] == [False, False]
    assert marks[0].failure.case
    assert not marks[1].failure.case  # a hidden case's words are its input
