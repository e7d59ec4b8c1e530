"""Formulas instead of numbers: their arithmetic, what may be highest, and shapes of every
proportion against the step played through. About 25 s."""

from __future__ import annotations

import random
import time
from math import prod
from operator import add, mul, sub

import pytest
from random_runs import of_many_ranks

from lab_utils import TrainConfig, estimate
from lab_utils.config import ModelConfig
from lab_utils.estimate.formula import saved_formula
from lab_utils.estimate.memory import model_state_bytes
from lab_utils.estimate.memory.curve import step_curve
from lab_utils.estimate.memory.exact.lifetimes import simulate_step
from lab_utils.estimate.memory.fast import changes, closed_form
from lab_utils.estimate.memory.fast.closed_form import rank_memory
from lab_utils.estimate.ops import op_ledger
from lab_utils.estimate.program.formulas import Highest
from lab_utils.estimate.program.size import Shape, Size, never_less

B, S, H = map(Size.named, "bsh")


@pytest.fixture(autouse=True)
def by_formulas(monkeypatch):
    """Formulas from the first shape of a kind on, not only for those that are asked often."""
    monkeypatch.setattr(changes, "SHAPES_BY_NUMBERS", 0)
    changes.stage_changes.cache_clear()
    closed_form._walk.cache_clear()


def test_arithmetic_is_that_of_numbers():
    numbers, rng = {"b": 3, "s": 7, "h": 11}, random.Random(0)
    shape, grown = Shape(numbers), [B, S, H, 5]
    for _ in range(200):
        left, right = rng.choice(grown), rng.choice(grown)
        operation = rng.choice([add, sub, mul])
        made = operation(left, right)
        assert shape(made) == operation(shape(left), shape(right))
        if not isinstance(made, Size) or max(map(len, made.terms)) < 5:
            grown.append(made)


def test_division_leaves_nothing_over():
    assert (6 * B * S * H + 4 * B * S) // (2 * S) == 3 * B * H + 2 * B
    whole = (B * S) // (B * S)
    assert (whole, type(whole)) == (1, int)
    for dividend, divisor in ((B * S, H), (3 * B, 2), (B + 1, B), (B * S, B + S)):
        with pytest.raises(ValueError, match="multiple|divided"):
            dividend // divisor


def test_names_are_never_numbers():
    assert B != 2
    assert (B - B, B + 0) == (0, B)
    assert hash(B * S) == hash(S * B)
    assert repr(4 * B * S + H + 8) == "4·b·s + h + 8"


def test_only_what_is_beaten_everywhere_is_left_out():
    assert all(never_less(*pair) for pair in ((B * S + H, H), (2 * B, B), (B, B)))
    assert not any(never_less(*pair) for pair in ((B, S), (B * S, B + H), (0, B)))
    rng, names = random.Random(1), (B, S, H, B * S, S * H, B * S * H, S * S)
    levels = [
        sum((rng.randint(-3, 9) * name for name in rng.sample(names, 4)), 0) for _ in range(300)
    ]
    highest = Highest(levels[0], {})
    for level in levels[1:]:
        highest.note(level, {})
    assert len(highest.rows) < 150
    for _ in range(300):
        shape = Shape({name: rng.choice([2, 3, 10, 500, 40_000]) for name in "bsh"})
        assert shape.largest(level for level, _ in highest.rows) == max(map(shape, levels))


def of_any_proportion(seed: int) -> TrainConfig:
    """A layout of random_runs with sizes from tiny to huge, so that sometimes one and sometimes
    another tensor is the largest."""
    rng, config = random.Random(seed), of_many_ranks(seed)
    heads = 4 * rng.choice([1, 2, 8])
    return config.replace(
        hidden=rng.choice([8, 48, 256, 5000]),
        heads=heads,
        kv_heads=rng.choice([4, heads]),
        head_dim=rng.choice([4, 8, 32, 256]),
        vocab=rng.choice([256, 999, 50_000]),
        ffn=rng.choice([6, 100, 4000]),
        seq=4 * rng.choice([1, 2, 30, 700]),
        bucket_mib=rng.choice([0.001, 1.0, 200.0]),
    )


@pytest.mark.parametrize("first", range(0, 150, 50))
def test_shapes_of_every_proportion(first):
    for config in map(of_any_proportion, range(first, first + 50)):
        p, tp = config.parallel, 0
        for pp in {0, p.pp - 1}:
            optimizer = model_state_bytes(config, pp, tp)["optimizer"]
            assert rank_memory(config, pp, tp, optimizer) == simulate_step(
                config, pp, tp, optimizer
            ), (config, pp)


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"attention": "explicit", "precision": "bf16"},
        {
            "norm": "rmsnorm",
            "activation": "swiglu",
            "positions": "rope",
            "kv_heads": 2,
            "bias": False,
        },
        {"recompute": "selective", "attention": "explicit"},
        {"tied": True, "precision": "bf16-pure", "heads": 1, "head_dim": 6},
    ],
    ids=str,
)
def test_an_ops_saved_and_temporary_bytes_are_the_steps(flags):
    """The ledger's op, drawn up once for a kind, against the same op of a step that was played
    through with numbers."""
    config = TrainConfig.of(
        "tiny",
        **{
            "layers": 1,
            "hidden": 24,
            "heads": 4,
            "seq": 40,
            "vocab": 300,
            "global_batch": 2,
            "micro_batch": 2,
        }
        | flags,
    )
    moments = [
        moment
        for moment in step_curve(config)
        if moment.phase == "forward" and moment.label != "begin"
    ]
    ops = {op.name: op for op in op_ledger(config)}
    before = step_curve(config)[0]
    needed, saved = dict.fromkeys(ops, 0), dict.fromkeys(ops, 0)
    for moment in moments:
        needed[moment.label] = max(
            needed[moment.label], moment.peak_bytes - max(before.live_bytes, moment.live_bytes)
        )
        saved[moment.label] += moment.live["activations"] - before.live["activations"]
        before = moment
    assert {name: op.saved_bytes for name, op in ops.items()} == saved
    assert {name: op.forward_temporary_bytes for name, op in ops.items()} == needed
    if "recompute" not in flags:
        assert sum(op.saved_bytes for op in ops.values()) == simulate_step(config).activations


def test_a_product_saves_its_input_and_its_backward_needs_nothing_more():
    config = TrainConfig.of("tiny", layers=1, hidden=32, ffn=96, global_batch=2, micro_batch=2)
    ops = {op.name: op for op in op_ledger(config)}
    down, model = ops["blocks.0.mlp.down"], config.model
    assert down.saved_bytes == 4 * 2 * model.seq * model.ffn
    assert down.forward_temporary_bytes == 0
    full = {op.name: op for op in op_ledger(config.replace(recompute="full"))}
    # the block's input
    assert (
        sum(op.saved_bytes for name, op in full.items() if name.startswith("blocks."))
        == 4 * 2 * model.seq * model.hidden
    )
    assert sum(op.recomputed_flops for op in full.values()) > 0


def test_a_shape_never_seen_is_as_quick():
    """Once its kind is known: the second shape and all that follow only put numbers into formulas.

    Held against a loop of the same process, because one machine is twice as quick as another: on
    one that takes 1.0 ms for the loop, 3 ms; 1.0 ms were measured on the quickest.
    """

    def seconds(hidden: int) -> float:
        model = ModelConfig(
            layers=12,
            hidden=hidden,
            heads=8,
            kv_heads=4,
            norm="rmsnorm",
            activation="swiglu",
            positions="rope",
            vocab=1000,
        )
        config = TrainConfig(model=model, global_batch=8, micro_batch=2, precision="bf16")
        began = time.process_time()
        estimate(config)
        return time.process_time() - began

    def loop_seconds() -> float:
        began = time.process_time()
        sum(i * i for i in range(20_000))
        return time.process_time() - began

    seconds(64)
    loop = min(loop_seconds() for _ in range(30))
    assert min(seconds(80 + 16 * i) for i in range(30)) <= 3 * loop


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"attention": "explicit"},
        {"recompute": "full"},
        {"recompute": "selective", "attention": "explicit", "precision": "bf16"},
        {
            "norm": "rmsnorm",
            "activation": "swiglu",
            "positions": "rope",
            "kv_heads": 2,
            "precision": "bf16-pure",
        },
        {"tp": 2, "sequence_parallel": True},
    ],
    ids=str,
)
def test_the_formula_of_a_block_is_what_one_block_more_saves(flags):
    config = TrainConfig.of(
        "tiny",
        **{
            "layers": 3,
            "hidden": 24,
            "heads": 4,
            "head_dim": 8,
            "ffn": 40,
            "seq": 12,
            "global_batch": 3,
        }
        | flags,
    )
    model, tp = config.model, config.parallel.tp
    letters = {
        "b": config.micro_batch,
        "s": model.seq,
        "z": model.seq // tp,
        "h": model.hidden,
        "a": model.heads // tp,
        "k": model.kv_heads // tp,
        "d": model.head_dim,
        "f": model.ffn // tp,
    }
    formula = saved_formula(config)
    total = sum(
        prod(
            letters[part] if part in letters else letters["s"] ** 2 if part == "s²" else int(part)
            for part in product.split("·")
        )
        for product in formula.split(" + ")
    )
    deeper = config.replace(layers=4)
    assert total == rank_memory(deeper).activations - rank_memory(config).activations, formula


def test_a_formula_reads_as_one_writes_it():
    assert (
        saved_formula(TrainConfig.of("small", global_batch=4))
        == "16·b·s·a·d + 16·b·s·h + 4·b·s·a + 8·b·s·f + 16·b·s"
    )
    assert saved_formula(TrainConfig.of("small", global_batch=4, recompute="full")) == "4·b·s·h"
