"""The papers' memory tables, from the same ledger: Korthikanti et al. 2022, ZeRO, and parameter
counts of published models."""

from __future__ import annotations

from math import prod

import pytest

from lab_utils import TrainConfig
from lab_utils.config import ModelConfig
from lab_utils.estimate.memory import model_state_bytes
from lab_utils.estimate.program.megatron import (
    STATE_BYTES,
    interleaving_factor,
    layer_activations,
    layer_matrices,
)
from lab_utils.layout.parameters import parameter_count, parameter_shapes

GIB = 2**30
SEQ = 2048

# Korthikanti et al. 2022, figure 1: GiB per A100. hidden, layers, heads, micro-batch, tp, pp,
# virtual stages; model states, activations with tensor parallelism alone, and with sequence
# parallelism and selective recomputation.
FIGURE_1 = {
    "22B": ((6144, 48, 64, 4, 8, 1, 1), (45.5625, 59.25, 9.5625)),
    "175B": ((12288, 96, 96, 1, 8, 8, 3), (45.5625, 66.84375, 12.3515625)),
    "530B": ((20480, 105, 128, 1, 8, 35, 3), (31.640625, 114.0234375, 23.076171875)),
    "1T": ((25600, 128, 160, 1, 8, 64, 1), (32.958984375, 131.25, 26.5625)),
}
# Figure 7: percent of what tensor parallelism alone holds: sequence parallelism, selective
# recomputation, both, full recomputation.
FIGURE_7 = {
    "22B": (66.84, 49.42, 16.18, 7.64),
    "175B": (62.04, 56.53, 18.49, 8.71),
    "530B": (58.31, 62.04, 20.27, 9.42),
    "1T": (58.31, 62.04, 20.27, 9.42),
}
# Rajbhandari et al. 2020 (SC20), figure 1 and table 1: GB of model states per device under
# mixed-precision Adam, ZeRO stages 1, 2, 3.
ZERO = [
    (7.5e9, 4, 52.5, 41.2, 30),
    (7.5e9, 16, 35.6, 21.6, 7.5),
    (7.5e9, 64, 31.4, 16.6, 1.88),
    (7.5e9, 256, 30.4, 15.4, 0.47),
    (7.5e9, 1024, 30.1, 15.1, 0.12),
    (128e9, 64, 536, 284, 32),
    (128e9, 1024, 514, 258, 2),
    (1e12, 64, 4190, 2220, 250),
    (1e12, 1024, 4010, 2010, 15.6),
]
# Parameter counts from the published configurations (Llama 3: Grattafiori et al. 2024, table 3, and
# the models' config.json).
COUNTS = {
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
}


def shape(model: str) -> tuple[ModelConfig, int, int, int, int, int]:
    hidden, layers, heads, micro_batch, tp, pp, v = FIGURE_1[model][0]
    return (
        ModelConfig(layers=layers, hidden=hidden, heads=heads, seq=SEQ),
        layers,
        micro_batch,
        tp,
        pp,
        v,
    )


def per_layer(model: str, **layout: object) -> int:
    config, _, micro_batch, tp, *_ = shape(model)
    return sum(layer_activations(config, micro_batch=micro_batch, tp=tp, **layout).values())


@pytest.mark.parametrize("model", FIGURE_1)
def test_every_digit_of_korthikantis_figure_1(model):
    config, layers, _, tp, pp, v = shape(model)
    states, plain, both = FIGURE_1[model][1]
    in_flight = interleaving_factor(pp, v) * layers / GIB
    assert STATE_BYTES * layer_matrices(config, tp) * layers / pp / GIB == states
    assert per_layer(model) * in_flight == plain
    assert per_layer(model, sequence_parallel=True, recompute="selective") * in_flight == both


@pytest.mark.parametrize("model", FIGURE_7)
def test_korthikantis_figure_7(model):
    ways = [
        dict(sequence_parallel=True),
        dict(recompute="selective"),
        dict(sequence_parallel=True, recompute="selective"),
        dict(recompute="full"),
    ]
    for way, percent in zip(ways, FIGURE_7[model], strict=True):
        assert 100 * per_layer(model, **way) / per_layer(model) == pytest.approx(
            percent, rel=0.015
        ), way


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_their_closed_forms_follow_op_by_op(tp):
    s, b, h, a = 64, 2, 256, 16
    model = ModelConfig(hidden=h, heads=a, seq=s)
    assert (
        sum(layer_activations(model, micro_batch=b, tp=tp).values())
        == s * b * h * 10 + (s * b * h * 24 + 5 * a * s * s * b) // tp
    )
    assert (
        sum(
            layer_activations(
                model, micro_batch=b, tp=tp, sequence_parallel=True, recompute="selective"
            ).values()
        )
        == 34 * s * b * h // tp
    )
    ops = layer_activations(model, micro_batch=b, tp=tp)
    # q, k and v; weights, mask, and what the mask leaves
    assert ops["attention.core"] == 6 * s * b * h // tp + 5 * a * s * s * b // tp
    assert (ops["attention.dropout"], ops["mlp.dropout"]) == (s * b * h, s * b * h)


@pytest.mark.parametrize(("parameters", "dp", "one", "two", "three"), ZERO)
def test_zeros_table(parameters, dp, one, two, three):
    """16 bytes a parameter: fp16 weight and gradient, fp32 master weight and two moments; ours says
    the same of bf16-pure with AdamW."""
    base = TrainConfig.of(
        "tiny",
        hidden=1024,
        heads=8,
        layers=2,
        vocab=2**15,
        dp=dp,
        global_batch=dp,
        precision="bf16-pure",
    )
    count = parameter_count(base.model)
    for zero, printed in ((1, one), (2, two), (3, three)):
        states = model_state_bytes(base.replace(zero=zero))
        per_parameter = (
            sum(states[term] for term in ("parameters", "gradients", "optimizer")) / count
        )
        assert per_parameter * parameters / 1e9 == pytest.approx(printed, rel=6e-3, abs=5e-3)


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_parameter_counts_to_the_unit(name, count):
    model = TrainConfig.of(name).model
    assert (
        parameter_count(model)
        == sum(prod(shape) for shape in parameter_shapes(model).values())
        == count
    )
