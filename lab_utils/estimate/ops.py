"""The ledger of operations: what one rank computes for one micro-batch, op by op, in the order of
the forward pass.

Everything else in `estimate/` is derived from it, so that memory, FLOPs, traffic and time cannot
disagree. It is not written down but drawn up: the model's forward and backward pass run over values
without numbers (program/), and every kernel enters its work under the op that it belongs to. A
matrix product of (m, k) by (k, n) costs 2·m·k·n FLOPs; element-wise work is not counted (Narayanan
et al. 2021, appendix). Causal attention is counted whole: the masked half is computed and thrown
away, or skipped, by the kernel's choice. HBM bytes are what unfused eager kernels read and write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from ..config import ModelConfig, TrainConfig
from .program.kinds import Kind, kind_of, numbers_of
from .program.ledger import PARTS, Entry, ledger_of
from .program.messages import Message
from .program.share import ALONE, Share
from .program.size import Shape
from .program.stage_parts import parts_of_stages
from .update import update_flops

__all__ = [
    "Message",
    "Op",
    "backward_order",
    "block_ledger",
    "ledger_parts",
    "op_ledger",
    "step_flops",
]


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of one micro-batch on one rank.

    `kind`: "matmul", "attention", "elementwise" or "lookup". `backward_flops` are the model's:
    gradients of inputs and of weights; `recomputed_flops` is what the backward pass does again
    beyond that (a recomputed forward pass, the product that fused attention computes twice).
    `…_hbm_bytes`: read and written in memory. `saved_bytes`: what its forward pass keeps for the
    backward pass that nothing before it kept, autocast's copies of weights apart
    (`saved_copy_bytes`). `…_temporary_bytes`: what a pass needs for a moment, beyond what is alive
    before or after it. `shape`: (m, k, n) of a forward product on this rank. `parameters`: those
    whose gradient is complete after its backward.
    """

    name: str
    kind: str
    forward_flops: int = 0
    backward_flops: int = 0
    recomputed_flops: int = 0
    forward_hbm_bytes: int = 0
    backward_hbm_bytes: int = 0
    recomputed_hbm_bytes: int = 0
    saved_bytes: int = 0
    saved_copy_bytes: int = 0
    forward_temporary_bytes: int = 0
    backward_temporary_bytes: int = 0
    shape: tuple[int, int, int] | None = None
    traffic: tuple[Message, ...] = ()
    parameters: tuple[str, ...] = ()


def op_ledger(
    config: TrainConfig,
    pp_rank: int = 0,
    tp_rank: int = 0,
    convention: str = "cpu",
    cp_rank: int = 0,
) -> list[Op]:
    """The ops of one micro-batch on all stages of the rank at these coordinates, in forward
    order."""
    parts = ledger_parts(config, pp_rank, tp_rank, convention, cp_rank)
    return [op for _, ops in parts for op in ops]


def ledger_parts(
    config: TrainConfig,
    pp_rank: int = 0,
    tp_rank: int = 0,
    convention: str = "cpu",
    cp_rank: int = 0,
) -> list[tuple[str, tuple[Op, ...]]]:
    """The same by part of the model, "embed", "blocks.3" …, "head_loss"; equal blocks are drawn up
    once."""
    again, share, found = set(config.recomputed_layers()), Share.of(config, tp_rank, cp_rank), []
    for parts in parts_of_stages(config, pp_rank).values():
        for part in parts:
            in_full = part.startswith("blocks.") and int(part.split(".")[1]) in again
            policy = (
                "full" if in_full else "selective" if config.recompute == "selective" else "none"
            )
            ops = block_ledger(
                config.model, config.micro_batch, config.precision, share, policy, convention
            )
            found.append((part, ops[part] if part in PARTS else _renamed(part, ops["blocks.0"])))
    return found


@lru_cache(maxsize=512)  # the tools price the same blocks on many clusters
def _renamed(part: str, block: tuple[Op, ...]) -> tuple[Op, ...]:
    """The ops of "blocks.0" as those of another block."""

    def name(old: str) -> str:
        return part + old[len("blocks.0") :]

    return tuple(
        replace(op, name=name(op.name), parameters=tuple(name(p) for p in op.parameters))
        for op in block
    )


def block_ledger(
    model: ModelConfig,
    micro_batch: int,
    precision: str,
    share: Share = ALONE,
    policy: str = "none",
    convention: str = "cpu",
) -> Mapping[str, tuple[Op, ...]]:
    """The ops of the model's ends, "embed" and "head_loss", and of one block, "blocks.0",
    recomputed as `policy` says ("none", "selective" or "full")."""
    numbers = numbers_of(model, micro_batch, share)
    kind = kind_of(
        model,
        precision,
        numbers,
        share=share,
        layers=1,
        recomputed=(0,) if policy == "full" else (),
        selective=policy == "selective",
    )
    return _with_numbers(kind, tuple(numbers.items()), convention)


@lru_cache(maxsize=512)  # tools and the planner price thousands of layouts of a few models
def _with_numbers(
    kind: Kind, numbers: tuple[tuple[str, int], ...], convention: str
) -> Mapping[str, tuple[Op, ...]]:
    shape = Shape(dict(numbers))
    parts: dict[str, list[Op]] = {part: [] for part in PARTS}
    for entry in ledger_of(kind, convention):
        parts[entry.part].append(_op(entry, shape))
    return {part: tuple(ops) for part, ops in parts.items()}


def _op(entry: Entry, shape: Shape) -> Op:
    (forward, read), (backward, read_back), (again, read_again) = (
        (shape(flops), shape(nbytes)) for flops, nbytes in entry.work.values()
    )
    passes = {
        phase: [
            visit for visit in entry.visits if (visit.phase == "forward") == (phase == "forward")
        ]
        for phase in ("forward", "backward")
    }
    needed = {
        phase: max((visit.temporary(shape) for visit in visits), default=0)
        for phase, visits in passes.items()
    }
    return Op(
        entry.name,
        entry.kind,
        forward,
        min(backward, 2 * forward),
        max(0, backward - 2 * forward) + again,
        read,
        read_back,
        read_again,
        sum(shape(visit.saved) for visit in passes["forward"]),
        sum(shape(visit.copies) for visit in passes["forward"]),
        needed["forward"],
        needed["backward"],
        entry.product and tuple(map(shape, entry.product)),
        tuple(message._replace(bytes=shape(message.bytes)) for message in entry.messages),
        entry.parameters,
    )


def backward_order(ops: list[Op], tied: bool) -> list[tuple[Op, tuple[str, ...]]]:
    """The ops in the order of the backward pass, each with the gradients that are complete after
    it.

    A tied embedding is complete only after the embedding's own backward, which is the last.
    """
    pairs = [(op, op.parameters) for op in reversed(ops)]
    if tied:
        pairs[-1] = (pairs[-1][0], ("token_embedding.weight",))
    return pairs


def step_flops(config: TrainConfig) -> dict[str, int | str]:
    """FLOPs of one optimizer step of the whole job: `model` without and `hardware` with
    recomputation, and the `update`'s own (Muon's products)."""
    again, selective = len(config.recomputed_layers()), config.recompute == "selective"
    # what tp shares out adds up to the whole; the ring leaves out what its ranks need not meet
    uncut = Share.of(config)._replace(tp=1, sequence_parallel=False)
    model = extra = 0
    for policy, layers in (
        ("selective" if selective else "none", config.model.layers - again),
        ("full", again),
    ):
        if layers or policy != "full":
            for part, ops in block_ledger(
                config.model, config.micro_batch, config.precision, uncut, policy
            ).items():
                count = layers if part == "blocks.0" else policy != "full"
                model += count * sum(op.forward_flops + op.backward_flops for op in ops)
                extra += count * sum(op.recomputed_flops for op in ops)
    times = config.micro_batches * config.parallel.replicas
    return {
        "model": model * times,
        "hardware": (model + extra) * times,
        "update": update_flops(config),
        "causal_attention": "whole",
    }
