"""What context parallelism sends in a step: keys, values and their gradients round the ring, or
heads for tokens and back."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import TrainConfig
from ..layout.placement import heads_of_rank
from .memory.terms import element_bytes
from .program.stage_parts import parts_of_stages
from .tensor_traffic import Item


def context_parallel_items(config: TrainConfig, pp_rank: int, tp_rank: int) -> Iterator[Item]:
    """What a step sends along cp, a message for each block and micro-batch N − 1 times round, or
    four exchanges forward and four backward."""
    p, model = config.parallel, config.model
    if p.cp == 1:
        return
    again, selective = set(config.recomputed_layers()), config.recompute == "selective"
    held = element_bytes(config)
    width = 2 if config.precision in ("bf16", "fp16") else held  # of what autocast has projected
    groups = heads_of_rank(model, p.tp, tp_rank)[1]
    of_keys = config.micro_batch * config.rank_seq * groups * model.head_dim  # elements
    of_queries = of_keys * (model.heads // model.kv_heads)
    parts = [part for stage in parts_of_stages(config, pp_rank).values() for part in stage]
    for part in parts:
        if not part.startswith("blocks."):
            continue
        in_full = int(part.split(".")[1]) in again
        if p.cp_kind == "ring":
            passes = 3 if in_full or selective else 2  # of the keys and values
            rounds = config.micro_batches * (p.cp - 1)
            payload = 2 * of_keys * (passes * width + 4)
            yield "send", "cp", "activation", rounds * (passes + 1), rounds * payload
        else:
            # what is recomputed by itself already has its heads
            passes = config.micro_batches * (3 if in_full else 2)
            payload = 2 * (of_queries + of_keys) * width
            yield "all_to_all", "cp", "activation", passes * 4, passes * payload
