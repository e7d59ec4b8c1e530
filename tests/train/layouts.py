"""The layouts that the engine is held to, drawn once from fixed seeds.

`make test` runs `pairwise(4)`: any two of degrees, model, precision, schedule, recomputation and
the rest that can stand together on four ranks do so in one of them; and `corners()`, three axes at
once. `make test-all` has the same for eight ranks, and adds `layouts()`, every triple of degrees up
to eight ranks with several of everything else, `with_context()`, the same with sequences shared
out, and `in_bf16()`. test_grid asserts that each covers what it has to.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator
from functools import cache
from itertools import product

from pairs import EXHAUSTIVE, cover

from lab_utils import TrainConfig
from lab_utils.config import ConfigError
from lab_utils.layout.refusals import refuse_layout

SHAPES = {
    "gpt": dict(layers=4, hidden=32, heads=4, seq=16),
    "gpt, written out": dict(layers=4, hidden=32, heads=4, seq=16, attention="explicit"),
    "gpt, tied": dict(layers=4, hidden=32, heads=4, seq=16, tied=True),
    "llama": dict(
        layers=4,
        hidden=32,
        heads=8,
        kv_heads=4,
        seq=16,
        norm="rmsnorm",
        activation="swiglu",
        positions="rope",
        bias=False,
    ),
    "llama, tied": dict(
        layers=4,
        hidden=32,
        heads=8,
        kv_heads=4,
        seq=16,
        norm="rmsnorm",
        activation="swiglu",
        positions="rope",
        bias=False,
        tied=True,
    ),
    # nothing here can be shared out evenly over 2 or 4
    "uneven": dict(layers=5, hidden=40, heads=5, ffn=101, vocab=257, seq=16),
    "uneven llama": dict(
        layers=5,
        hidden=40,
        heads=10,
        kv_heads=5,
        ffn=101,
        vocab=259,
        seq=16,
        norm="rmsnorm",
        activation="swiglu",
        positions="rope",
        tied=True,
    ),
}
BATCH = 16


def triples() -> list[tuple[int, int, int]]:
    """(dp, tp, pp), each 1, 2 or 4, from 2 to 8 ranks in all."""
    return [
        degrees
        for degrees in product((1, 2, 4), repeat=3)
        if 2 <= degrees[0] * degrees[1] * degrees[2] <= 8
    ]


def layouts() -> list[TrainConfig]:
    """All of them; none is refused."""
    return [config for degrees in triples() for config in _of(*degrees)]


def with_context() -> list[TrainConfig]:
    """Layouts with cp 2 and 4, both kinds, by everything that they stand together with; none is
    refused."""
    found = []
    for dp, tp, pp, cp in product((1, 2), (1, 2), (1, 2), (2, 4)):
        if dp * tp * pp * cp <= 8:
            rng = random.Random(f"context {dp} {tp} {pp} {cp}")
            for kind in ("ring", "all-to-all"):
                made = [_one(rng, (dp, tp, pp, cp), kind, zero) for zero in range(4)]
                # eight ranks take turns on two cores
                found += made if dp * tp * pp * cp < 8 else made[cp // 4 :: 2]
    return found


def _one(
    rng: random.Random, degrees: tuple[int, int, int, int], kind: str, zero: int
) -> TrainConfig:
    """A layout of these degrees that is not refused, with anything else."""
    dp, tp, pp, cp = degrees
    while True:
        schedule = rng.choice(["1f1b", "gpipe", "interleaved", "zero-bubble"]) if pp > 1 else "1f1b"
        shape = SHAPES[rng.choice(list(SHAPES))]
        if tp * cp == 8:  # a head for each of them
            shape = SHAPES["gpt"] | {"heads": 8}
        flags = dict(
            shape,
            dp=dp,
            tp=tp,
            pp=pp,
            cp=cp,
            cp_kind=kind,
            steps=5,
            global_batch=BATCH,
            micro_batch=BATCH // dp // rng.choice([1, 4, BATCH // dp]),
            zero=zero,
            sequence_parallel=tp > 1 and rng.random() < 0.5,
            offload=rng.random() < 0.2,
            schedule=schedule,
            virtual_stages=2 if schedule == "interleaved" else 1,
            recompute=rng.choice(["none", "selective", "full", "0,2"]),
            optimizer=rng.choice(["sgd", "sgd", "adamw"]),
            clip=rng.choice([0.0, 0.25]),
            bucket_mib=rng.choice([0.02, 4.0]),
        )
        config = TrainConfig.of(**flags)
        try:
            refuse_layout(config)
        except ConfigError:
            continue
        return config


def _of(dp: int, tp: int, pp: int) -> Iterator[TrainConfig]:
    rng, made = random.Random(f"{dp} {tp} {pp}"), 0
    while made < (4 if dp * tp * pp == 8 else 8):  # eight ranks take turns on two cores
        shape = (
            list(SHAPES)[made - 1]
            if made >= 1
            else rng.choice(["uneven", "uneven llama", "gpt, tied"])
        )
        schedule = rng.choice(
            ["gpipe", "1f1b", "interleaved", "interleaved", "zero-bubble"]
            if pp > 1
            else ["gpipe", "1f1b"]
        )
        flags = dict(
            SHAPES[shape],
            dp=dp,
            tp=tp,
            pp=pp,
            steps=5,
            global_batch=BATCH,
            micro_batch=BATCH // dp // rng.choice([1, 4]),
            zero=made % 4,
            sequence_parallel=tp > 1 and rng.random() < 0.5,
            offload=rng.random() < 0.15,
            schedule=schedule,
            virtual_stages=2 if schedule == "interleaved" else 1,
            recompute=rng.choice(["none", "none", "selective", "full", "0,2"]),
            optimizer=rng.choice(["sgd", "sgd", "adamw"]),
            clip=rng.choice([0.0, 0.25]),
            bucket_mib=rng.choice([0.02, 4.0]),
        )
        config = TrainConfig.of(**flags)
        try:
            refuse_layout(config)
        except ConfigError:
            continue
        yield config
        made += 1


PRECISIONS = ("fp32", "bf16", "bf16-pure")


def drawn(seed: int, count: int = 500, most: int = 8) -> list[TrainConfig]:
    """So many layouts that are not refused, of any values, on `most` ranks at most."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        (dp, tp, pp), schedule = (
            rng.choice(triples()),
            rng.choice(["gpipe", "1f1b", "interleaved", "zero-bubble"]),
        )
        if dp * tp * pp > most:
            continue
        cp = rng.choice([n for n in (1, 1, 2, 4) if dp * tp * pp * n <= most])
        flags = dict(
            SHAPES[rng.choice(list(SHAPES))],
            dp=dp,
            tp=tp,
            pp=pp,
            cp=cp,
            cp_kind=rng.choice(["ring", "all-to-all"]) if cp > 1 else "ring",
            steps=5,
            global_batch=BATCH,
            micro_batch=BATCH // dp // rng.choice([1, 4]),
            zero=rng.randrange(4),
            sequence_parallel=tp > 1 and rng.random() < 0.5,
            offload=rng.random() < 0.3,
            schedule=schedule,
            virtual_stages=2 if schedule == "interleaved" else 1,
            recompute=rng.choice(["none", "selective", "full", "0,2"]),
            optimizer=rng.choice(["sgd", "adamw"]),
            clip=rng.choice([0.0, 0.25]),
            bucket_mib=rng.choice([0.02, 4.0]),
            precision=rng.choice(PRECISIONS),
        )
        try:
            config = TrainConfig.of(**flags)
            refuse_layout(config)
        except ConfigError:
            continue
        found.append(config)
    return found


def values(config: TrainConfig) -> dict[str, Hashable]:
    """What any two of are to meet."""
    p = config.parallel
    return dict(
        model=config.model,
        dp=p.dp,
        tp=p.tp,
        pp=p.pp,
        cp=p.cp,
        cp_kind=p.cp_kind,
        zero=p.zero,
        sequence_parallel=p.sequence_parallel,
        offload=p.offload,
        schedule=p.schedule,
        micro_batches=config.micro_batches,
        recompute=config.recompute,
        optimizer=config.optimizer,
        clip=config.clip,
        bucket_mib=p.bucket_mib,
        precision=config.precision,
    )


@cache
def pairwise(most: int) -> tuple[TrainConfig, ...]:
    """As few as hold every pair of values that meet on `most` ranks. Starting a case costs as much
    as running two ranks of it, and ranks take turns on two cores."""
    layouts = drawn(0, 2000, most)
    return tuple(cover(layouts, values, cost=lambda config: 2 + config.parallel.world_size))


@cache
def corners() -> tuple[TrainConfig, ...]:
    """Two ranks along each of any three axes, with whatever was drawn first."""
    found: dict[tuple[int, ...], TrainConfig] = {}
    for config in drawn(1, 2000):
        p = config.parallel
        degrees = (p.dp, p.tp, p.pp, p.cp)
        if sorted(degrees) == [1, 2, 2, 2]:
            found.setdefault(degrees, config)
    return tuple(found.values())


def in_bf16() -> list[TrainConfig]:
    """Every strategy by itself, and all of them together, in both precisions of 16 bits."""
    base = TrainConfig.of(
        **SHAPES["gpt"], steps=5, global_batch=BATCH, micro_batch=2, optimizer="sgd", clip=0.25
    )
    return [
        base.replace(precision=precision, **layout)
        for precision in PRECISIONS[1:]
        for layout in (
            {"dp": 2},
            {"dp": 2, "zero": 1},
            {"dp": 2, "zero": 2, "recompute": "full"},
            {"dp": 2, "zero": 3},
            {"dp": 2, "zero": 3, "tied": True},
            {"tp": 2},
            {"tp": 2, "sequence_parallel": True, "recompute": "selective"},
            {"pp": 2},
            {"pp": 2, "schedule": "zero-bubble"},
            {"dp": 2, "tp": 2, "pp": 2, "zero": 1, "sequence_parallel": True},
            {"dp": 2, "tp": 2, "pp": 2, "zero": 3, "offload": True},
            {"cp": 2},
            {"cp": 2, "cp_kind": "all-to-all", "recompute": "selective"},
            {"cp": 4, "zero": 2},
            {"dp": 2, "cp": 2, "tp": 2, "zero": 3, "sequence_parallel": True},
        )
    ]


@cache
def to_run() -> tuple[TrainConfig, ...]:
    """Those of `make test`, or of `make test-all`."""
    if not EXHAUSTIVE:
        return (*pairwise(4), *corners())
    return (*pairwise(8), *layouts(), *with_context(), *in_bf16())


def alone(config: TrainConfig) -> TrainConfig:
    """The same training on one rank, nothing shared out, nothing recomputed, the whole batch at
    once."""
    return config.replace(
        dp=1,
        tp=1,
        pp=1,
        cp=1,
        cp_kind="ring",
        zero=0,
        sequence_parallel=False,
        offload=False,
        schedule="1f1b",
        virtual_stages=1,
        recompute="none",
        micro_batch=None,
        bucket_mib=4.0,
    )


def named(config: TrainConfig) -> str:
    """A layout in a few words, for messages."""
    p, model = config.parallel, config.model
    words = [
        f"dp{p.dp} tp{p.tp} pp{p.pp} zero{p.zero} m{config.micro_batches}",
        f"cp{p.cp} {p.cp_kind}" * (p.cp > 1),
        p.schedule,
        "sp" * p.sequence_parallel,
        "offload" * p.offload,
        f"recompute {config.recompute}",
        config.optimizer,
        f"clip {config.clip}",
        f"{model.norm} {model.positions} kv{model.kv_heads}/{model.heads}",
        "tied" * model.tied,
        f"L{model.layers} V{model.vocab}",
        config.precision,
    ]
    return " ".join(word for word in words if word)
