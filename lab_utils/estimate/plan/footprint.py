"""Bytes on the fullest GPU, in closed form: what a planner can ask for ten thousand layouts in a second.

Model states as in ZeRO (Rajbhandari et al. 2020, figure 1). What a block saves comes from `memory/lifetimes.py`, once for each way to
run it; micro-batches in flight are counted as the schedule keeps them. `memory/lifetimes.py` plays a whole layout through to the
byte; the tests hold these forms to it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...config import ModelConfig, ParallelConfig, TrainConfig
from ..memory.lifetimes import simulate_step
from ..time.frameworks import OURS, Framework
from ..time.wires import parameters_of_rank, sizes_of_parts

_STATES = {"adamw": 8, "sgd": 4, "lion": 4, "adafactor": 0.1, "adam8bit": 2}      # bytes per parameter beside weight, gradient and fp32 master


def footprint_bytes(config: TrainConfig, framework: Framework = OURS) -> float:
    """The most that a rank holds at once, in bytes: states and either activations, logits and ZeRO's buffers, or the update's."""
    passing = max(_first_rank(config, framework), _last_rank(config, framework)) + _buffers(config)
    return state_bytes(config, framework) + max(passing, _updating(config) if framework is OURS else 0.0)


def state_bytes(config: TrainConfig, framework: Framework = OURS) -> float:
    """Weights, gradients and optimizer states of one rank, and under autocast the casts of the weights in use."""
    p, low = config.parallel, config.precision == "bf16-pure"
    numel, held = parameters_of_rank(config), 2 if low else 4
    kept = max(held, framework.gradient_bytes or held)
    per = _STATES[config.optimizer] + (4 if low or p.offload else 0)
    weights = held / p.dp if p.zero == 3 else held
    gradients = kept / p.dp if p.zero >= 2 else kept
    optimizer = 0.0 if p.offload else per / (p.dp if p.zero else 1)
    copies = 2 if config.precision in ("bf16", "fp16") else 0
    return numel * (weights + gradients + optimizer + copies)


def block_bytes(config: TrainConfig, policy: str, framework: Framework = OURS) -> float:
    """What one block saves for one micro-batch under "none", "selective" or "full" recomputation: a model of two blocks played
    through saves so much more than one of one. Attention written out with dropout saves the scores' mask and result besides."""
    model, p = config.model, config.parallel
    saved = _saved_by_block(model, config.micro_batch, config.precision, p.tp, p.sequence_parallel, policy)
    if framework.score_passes is None or model.attention != "explicit" or policy != "none":
        return saved
    return saved + 1.5 * 2 * config.micro_batch * model.heads * model.seq**2 / p.tp


@lru_cache(maxsize=2048)
def _saved_by_block(model: ModelConfig, micro_batch: int, precision: str, tp: int, sequence_parallel: bool, policy: str) -> int:
    one, two = (
        TrainConfig(model=replace(model, layers=layers), parallel=ParallelConfig(tp=tp, sequence_parallel=sequence_parallel), precision=precision,
                    global_batch=micro_batch, micro_batch=micro_batch, recompute=policy, optimizer="sgd")
        for layers in (1, 2)
    )  # fmt: skip
    return simulate_step(two).activations - simulate_step(one).activations


def _share(config: TrainConfig, framework: Framework) -> float:
    """One micro-batch's activations on all blocks of a rank."""
    blocks, recomputed = -(-config.model.layers // config.parallel.pp), len(config.recomputed_layers()) / config.model.layers
    kept = block_bytes(config, "selective" if config.recompute == "selective" else "none", framework)
    return blocks * ((1 - recomputed) * kept + recomputed * block_bytes(config, "full", framework))


def _working(config: TrainConfig, framework: Framework) -> float:
    """One block's activations are there again while it is recomputed."""
    return block_bytes(config, "none", framework) if config.recompute not in ("none", "selective") else 0.0


def _first_rank(config: TrainConfig, framework: Framework) -> float:
    p, m = config.parallel, config.micro_batches
    if p.schedule == "gpipe":
        flying = float(m)
    elif p.schedule == "interleaved":     # 1 + (p−1)/(p·v) times 1F1B's (Korthikanti et al. 2022, section 4.2.3)
        flying = min(m, p.pp * (1 + (p.pp - 1) / (p.pp * p.virtual_stages)))
    else:
        flying = min(m, p.pp)
    return flying * _share(config, framework) + _working(config, framework) + (_logits(config) if p.pp == 1 else 0.0)


def _last_rank(config: TrainConfig, framework: Framework) -> float:
    p, m = config.parallel, config.micro_batches
    flying = {"gpipe": m, "zero-bubble": min(m, p.pp), "interleaved": min(m, ((p.virtual_stages - 1) * p.pp + 1) / p.virtual_stages)}.get(p.schedule, 1)
    kept = {"gpipe": 4, "zero-bubble": 2 if config.precision == "bf16-pure" else 4}.get(p.schedule, 0)      # log-probabilities; the logits' gradient
    owed = (flying - 1) * _logits(config) * kept / 12
    return flying * _share(config, framework) + _working(config, framework) + _logits(config) + owed


def _logits(config: TrainConfig) -> float:
    """Three fp32 numbers a logit: log-probabilities, and while their gradient is made two more."""
    return 12 * config.micro_batch * config.model.seq * config.model.vocab / config.parallel.tp


def _buffers(config: TrainConfig) -> float:
    """ZeRO-2 and -3: the gradient of the largest unit; ZeRO-3 also the weights of it and of the block beside it."""
    p, held = config.parallel, 2 if config.precision == "bf16-pure" else 4
    if p.zero < 2 or p.dp == 1:
        return 0.0
    block, words, _, head = sizes_of_parts(config.model)
    unit = max(block, words if p.pp == 1 else max(words, head))
    return held * (unit + (unit + block if p.zero == 3 else 0)) / p.tp


def _updating(config: TrainConfig) -> float:
    """Our engine hands the optimizer fp32 gradients: where gradients are not, a copy of what the rank owns."""
    owned = parameters_of_rank(config) / (config.parallel.dp if config.parallel.zero else 1)
    return 4 * owned if config.precision == "bf16-pure" and not config.parallel.offload else 0.0
