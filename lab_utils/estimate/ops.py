"""The ledger of operations: what one rank computes for one micro-batch, op by op, in the order of the forward pass.

Everything else in `estimate/` is derived from this list, so that memory, FLOPs and time cannot disagree. A matrix
product of (m, k) by (k, n) costs 2·m·k·n FLOPs; element-wise work is not counted (Narayanan et al. 2021, appendix).
Causal attention is counted whole: the masked half is computed and thrown away, or skipped, by the kernel's choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from ..config import ModelConfig, TrainConfig
from ..layout.parameters import parameter_shapes


@dataclass(frozen=True)
class Op:
    """One operation on one micro-batch. `parameters` are those whose gradient is complete after its backward."""

    name: str
    forward_flops: int
    backward_flops: int          # of the model: gradients of inputs and of weights
    recomputed_flops: int = 0    # what the backward does again, beyond the model's
    parameters: tuple[str, ...] = ()


def op_ledger(config: TrainConfig) -> list[Op]:
    """Forward-order list of operations of the whole model, for one micro-batch (tp = pp = 1)."""
    ops = _ledger(config.model, config.micro_batch)
    if config.recompute == "none":
        return list(ops)
    blocks = tuple(f"blocks.{layer}." for layer in config.recomputed_layers())
    return [replace(op, recomputed_flops=op.recomputed_flops + op.forward_flops) if _runs_again(op, config, blocks) else op for op in ops]


def _runs_again(op: Op, config: TrainConfig, blocks: tuple[str, ...]) -> bool:
    return op.name.endswith(".core") if config.recompute == "selective" else bool(blocks) and op.name.startswith(blocks)


@lru_cache(maxsize=64)      # tools price thousands of layouts of a few models
def _ledger(model: ModelConfig, micro_batch: int) -> tuple[Op, ...]:
    return tuple(_ops(model, micro_batch * model.seq))


def _ops(model: ModelConfig, tokens: int) -> Iterator[Op]:
    shapes = parameter_shapes(model)

    def of(prefix: str) -> tuple[str, ...]:
        return tuple(name for name in (f"{prefix}.weight", f"{prefix}.bias") if name in shapes)

    def linear(name: str) -> Op:
        out, inner = shapes[f"{name}.weight"]
        flops = 2 * tokens * out * inner
        return Op(name, flops, 2 * flops, parameters=of(name))

    def attention(name: str) -> Op:
        product = 2 * tokens * model.seq * model.heads * model.head_dim        # QKᵀ; as much again for the values
        again = product if model.attention == "sdpa" else 0                    # the fused kernel computes QKᵀ twice
        return Op(name, 2 * product, 4 * product, recomputed_flops=again)

    yield Op("token_embedding", 0, 0, parameters=() if model.tied else of("token_embedding"))
    if model.positions == "learned":
        yield Op("position_embedding", 0, 0, parameters=of("position_embedding"))
    for i in range(model.layers):
        block = f"blocks.{i}"
        yield Op(f"{block}.attention_norm", 0, 0, parameters=of(f"{block}.attention_norm"))
        for part in ("query", "key", "value"):
            yield linear(f"{block}.attention.{part}")
        yield attention(f"{block}.attention.core")
        yield linear(f"{block}.attention.output")
        yield Op(f"{block}.mlp_norm", 0, 0, parameters=of(f"{block}.mlp_norm"))
        for part in ("gate", "up", "down") if model.activation == "swiglu" else ("up", "down"):
            yield linear(f"{block}.mlp.{part}")
    yield Op("final_norm", 0, 0, parameters=of("final_norm"))
    flops = 2 * tokens * model.vocab * model.hidden
    yield Op("head", flops, 2 * flops, parameters=() if model.tied else of("head"))


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
    ops, times = op_ledger(config), config.micro_batches * config.parallel.dp
    model = sum(op.forward_flops + op.backward_flops for op in ops) * times
    return {"model": model, "hardware": model + sum(op.recomputed_flops for op in ops) * times, "causal_attention": "whole"}
