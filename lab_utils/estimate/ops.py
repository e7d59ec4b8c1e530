"""The ledger of operations: what one rank computes for one micro-batch, op by op, in the order of the forward pass.

Everything else in `estimate/` is derived from it, so that memory, FLOPs, traffic and time cannot disagree. It is not written
down but drawn up: the model's forward and backward pass run over values without numbers (program/), and every kernel
enters its work under the op that it belongs to. A matrix product of (m, k) by (k, n) costs 2·m·k·n FLOPs; element-wise work
is not counted (Narayanan et al. 2021, appendix). Causal attention is counted whole: the masked half is computed and
thrown away, or skipped, by the kernel's choice. HBM bytes are what unfused eager kernels read and write.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ..config import TrainConfig
from .program.attention import Torch
from .program.conventions import CONVENTIONS
from .program.kernels import INDEX
from .program.model import Program
from .program.rank_shape import held_placements
from .program.stage_parts import parts_of_stages
from .program.tape import Storage, Value
from .program.tensor import Message, ParallelProgram, program_of

__all__ = ["Message", "Op", "backward_order", "ledger_parts", "op_ledger", "step_flops"]


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of one micro-batch on one rank.

    `kind`: "matmul", "attention", "elementwise" or "lookup". `backward_flops` are the model's: gradients of inputs and of
    weights; `recomputed_flops` is what the backward pass does again beyond that (a recomputed forward pass, the product that
    fused attention computes twice). `…_hbm_bytes`: read and written in memory. `shape`: (m, k, n) of a forward product on this
    rank. `parameters`: those whose gradient is complete after its backward.
    """

    name: str
    kind: str
    forward_flops: int = 0
    backward_flops: int = 0
    recomputed_flops: int = 0
    forward_hbm_bytes: int = 0
    backward_hbm_bytes: int = 0
    recomputed_hbm_bytes: int = 0
    shape: tuple[int, int, int] | None = None
    traffic: tuple[Message, ...] = ()
    parameters: tuple[str, ...] = ()


def op_ledger(config: TrainConfig, pp_rank: int = 0, tp_rank: int = 0, convention: str = "cpu") -> list[Op]:
    """The ops of one micro-batch on all stages of the rank at these coordinates, in forward order."""
    return [op for _, ops in ledger_parts(config, pp_rank, tp_rank, convention) for op in ops]


def ledger_parts(config: TrainConfig, pp_rank: int = 0, tp_rank: int = 0, convention: str = "cpu") -> list[tuple[str, tuple[Op, ...]]]:
    """The same by part of the model, "embed", "blocks.3" …, "predict"; equal blocks are drawn up once."""
    again, found = set(config.recomputed_layers()), []
    for parts in parts_of_stages(config, pp_rank).values():
        for part in parts:
            in_full = part.startswith("blocks.") and int(part.split(".")[1]) in again
            recompute = "full" if in_full else "selective" if config.recompute == "selective" else "none"
            found.append((part, _renamed(part, _drawn_up(_one_block(config, recompute), tp_rank, convention))))
    return found


def _one_block(config: TrainConfig, recompute: str) -> TrainConfig:
    p = config.parallel
    return replace(
        config, model=replace(config.model, layers=1), recompute=recompute, global_batch=config.micro_batch, steps=1, seed=0, corpus=None,
        parallel=replace(p, dp=1, pp=1, zero=0, offload=False, schedule="1f1b", virtual_stages=1, gradient_sync="bucketed", bucket_mib=4.0),
    )  # fmt: skip


def _renamed(part: str, ops: dict[str, tuple[Op, ...]]) -> tuple[Op, ...]:
    if part in ("embed", "predict", "blocks.0"):
        return ops[part]

    def name(old: str) -> str:
        return part + old[len("blocks.0"):]

    return tuple(replace(op, name=name(op.name), parameters=tuple(name(p) for p in op.parameters)) for op in ops["blocks.0"])


@lru_cache(maxsize=512)      # tools and the planner price thousands of layouts of a few models
def _drawn_up(config: TrainConfig, tp_rank: int, convention: str) -> dict[str, tuple[Op, ...]]:
    """The ops of a model of one block, by part."""
    torch = Torch(CONVENTIONS[convention])
    program = program_of(torch, config, held_placements(config, ("embed", "blocks.0", "predict"), tp_rank))
    tokens = config.micro_batch * config.model.seq
    with torch.casting(program.inside):
        x = program.embed(Value(Storage(torch, tokens * INDEX), tokens, INDEX))
        x = program.run_block(0, x)
        loss = program.predict(x, Value(Storage(torch, tokens * INDEX), tokens, INDEX))
    torch.go_back([(loss.node, loss.slot, torch.new(1, 4))])
    scopes = [scope for scope, phase in torch.rows if phase == "forward" and scope]
    parts: dict[str, list[Op]] = {"embed": [], "blocks.0": [], "predict": []}
    for scope in scopes:
        part = "embed" if scope.endswith("_embedding") else "blocks.0" if scope.startswith("blocks.") else "predict"
        parts[part].append(_op(scope, torch, program, tokens))
    return {part: tuple(ops) for part, ops in parts.items()}


_PRODUCTS = ("query", "key", "value", "output", "gate", "up", "down", "head")


def _op(scope: str, torch: Torch, program: Program, tokens: int) -> Op:
    model, last = program.model, scope.split(".")[-1]
    kind = "matmul" if last in _PRODUCTS else "attention" if last == "core" else "lookup" if last.endswith("_embedding") else "elementwise"
    rows = {phase: torch.rows.get((scope, phase), (0, 0)) for phase in ("forward", "backward", "recompute")}
    forward, backward, again = (rows[phase][0] for phase in ("forward", "backward", "recompute"))
    names = tuple(name for name in (f"{scope}.weight", f"{scope}.bias") if name in program.leaves and not (model.tied and last == "token_embedding"))
    shape = None
    if kind == "matmul":
        out, inner = program.leaves["token_embedding.weight" if last == "head" and model.tied else f"{scope}.weight"].shape
        shape = tokens, inner, out
    messages = tuple(m for at, m in program.messages if at == scope) if isinstance(program, ParallelProgram) else ()
    return Op(scope, kind, forward, min(backward, 2 * forward), max(0, backward - 2 * forward) + again,
              rows["forward"][1], rows["backward"][1], rows["recompute"][1], shape, messages, names)


def backward_order(ops: list[Op], tied: bool) -> list[tuple[Op, tuple[str, ...]]]:
    """The ops in the order of the backward pass, each with the gradients that are complete after it.

    A tied embedding is complete only after the embedding's own backward, which is the last.
    """
    pairs = [(op, op.parameters) for op in reversed(ops)]
    if tied:
        pairs[-1] = (pairs[-1][0], ("token_embedding.weight",))
    return pairs


def step_flops(config: TrainConfig) -> dict[str, int | str]:
    """FLOPs of one optimizer step of the whole job: `model` without and `hardware` with recomputation."""
    alone = replace(config, parallel=replace(config.parallel, pp=1, tp=1, schedule="1f1b", virtual_stages=1, sequence_parallel=False))
    again, selective = len(config.recomputed_layers()), config.recompute == "selective"
    model = extra = 0
    for recompute, layers in (("selective" if selective else "none", config.model.layers - again), ("full", again)):
        if layers or recompute != "full":
            for part, ops in _drawn_up(_one_block(alone, recompute), 0, "cpu").items():
                count = layers if part == "blocks.0" else recompute != "full"
                model += count * sum(op.forward_flops + op.backward_flops for op in ops)
                extra += count * sum(op.recomputed_flops for op in ops)
    times = config.micro_batches * config.parallel.dp
    return {"model": model * times, "hardware": (model + extra) * times, "causal_attention": "whole"}
