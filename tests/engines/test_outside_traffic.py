"""What the production libraries send, counted from outside: the bytes that their strategies need,
op by op and axis by axis."""

from __future__ import annotations

from collections import Counter
from math import prod

import pytest
from alike import BASE, run_all

from lab_utils import TrainConfig, launch
from lab_utils.layout.parameters import parameter_count, parameter_shapes

SP = dict(sequence_parallel=True)
CONFIGS = {
    name: BASE.replace(steps=2, **flags)
    for name, flags in {
        "ddp": dict(dp=2, micro_batch=2),
        "zero 1": dict(dp=2, zero=1),
        "zero 2": dict(dp=2, zero=2, micro_batch=2),
        "zero 3": dict(dp=2, zero=3, micro_batch=2),
        "zero 3, bf16": dict(dp=2, zero=3, precision="bf16"),
        "zero 3, 3 ranks": dict(dp=3, zero=3, global_batch=9, clip=1.0),
        "tp": dict(tp=2, micro_batch=4),
        "tp, sp": dict(tp=2, micro_batch=4, **SP),
        "pp": dict(pp=2, micro_batch=2, clip=1.0),
        "3d": dict(dp=2, tp=2, pp=2, zero=2, micro_batch=2, **SP),
    }.items()
}
MODEL = BASE.model
WHOLE = 4 * parameter_count(MODEL)  # bytes of all gradients
# of one micro-batch's activations
MICRO = {name: 4 * c.micro_batch * MODEL.seq * MODEL.hidden for name, c in CONFIGS.items()}


@pytest.fixture(scope="module")
def sent() -> dict[str, list[dict[tuple[str, str, str], int]]]:
    """Per case and rank: (op, axis, purpose) → bytes in one step."""
    runs = run_all(CONFIGS, "torch")
    return {
        name: [{(e.op, e.axis, e.purpose): e.bytes for e in rank.traffic} for rank in run.ranks]
        for name, run in runs.items()
    }


def test_ddp_sums_gradients_once_a_step(sent):
    assert sent["ddp"] == [{("all_reduce", "dp", "gradient"): WHOLE}] * 2


def test_zero_1_sums_whole_gradients_and_then_every_rank_sends_what_it_updated(sent):
    assert (
        sent["zero 1"]
        == [{("all_reduce", "dp", "gradient"): WHOLE, ("broadcast", "dp", "parameter"): WHOLE}] * 2
    )


def test_zero_2_gathers_once_a_step_and_zero_3_twice_a_micro_batch(sent):
    """FSDP2 sums gradients after the last micro-batch only. The root is freed after its forward
    pass, too: nothing is spared."""
    gathered, summed = ("all_gather", "dp", "parameter"), ("reduce_scatter", "dp", "gradient")
    assert sent["zero 2"] == [{gathered: WHOLE, summed: WHOLE}] * 2
    assert sent["zero 3"] == [{gathered: 2 * 2 * WHOLE, summed: WHOLE}] * 2
    assert sent["zero 3, bf16"] == [{gathered: 2 * WHOLE // 2, summed: WHOLE}] * 2


def test_fsdp_pads_every_parameter_to_equal_rows(sent):
    padded = sum(
        4 * -(-shape[0] // 3) * 3 * prod(shape[1:]) for shape in parameter_shapes(MODEL).values()
    )
    assert padded > WHOLE
    norms = 4 * len(parameter_shapes(MODEL))
    assert (
        sent["zero 3, 3 ranks"]
        == [
            {
                ("all_gather", "dp", "parameter"): 2 * padded,
                ("reduce_scatter", "dp", "gradient"): padded,
                ("all_reduce", "dp", "control"): norms,
            }
        ]
        * 3
    )


def test_dtensor_sums_once_where_a_region_is_left_and_once_where_it_was_entered(sent):
    """Two regions a layer, the embedding on the way forward and the head on the way back; the loss
    takes three numbers a token."""
    passes, loss = 2 * (4 * MODEL.layers + 2) * MICRO["tp"], 2 * 3 * 4 * 4 * MODEL.seq
    assert sent["tp"] == [{("all_reduce", "tp", "activation"): passes + loss}] * 2
    # norms and positions, seen in parts
    whole = 4 * ((2 * MODEL.layers + 1) * 2 * MODEL.hidden + MODEL.seq * MODEL.hidden)
    assert (
        sent["tp, sp"]
        == [
            {
                ("all_gather", "tp", "activation"): passes,
                ("reduce_scatter", "tp", "activation"): passes,
                ("all_reduce", "tp", "activation"): loss,
                ("all_reduce", "tp", "gradient"): whole,
            }
        ]
        * 2
    )


def test_a_pipeline_sends_each_micro_batch_and_its_gradient(sent):
    assert (
        sent["pp"]
        == [{("send", "pp", "activation"): 4 * MICRO["pp"], ("all_reduce", "pp", "control"): 4}] * 2
    )


def test_in_a_product_every_axis_carries_its_own(sent):
    from lab_utils.layout.placement import placements

    config = CONFIGS["3d"]
    for number, rank in enumerate(sent["3d"]):
        pp_rank, tp_rank = number // 2 % 2, number % 2
        here = list(placements(MODEL, config.parallel, pp_rank, tp_rank).values())
        held, parts = (
            4 * sum(place.numel for place in here),
            4 * sum(place.numel for place in here if "tp" in place.sum_over),
        )
        assert (
            rank["all_gather", "dp", "parameter"]
            == rank["reduce_scatter", "dp", "gradient"]
            == held
        )
        # two micro-batches, half their tokens
        assert rank["send", "pp", "activation"] == 2 * MICRO["3d"] // 2
        # added after the sum: DTensor sees their whole gradient
        biases = 4 * MODEL.hidden * 2 * MODEL.layers // 2
        assert rank["all_reduce", "tp", "gradient"] == parts - biases
        assert not [key for key in rank if key[2] == "control"]


def both_counts(config: TrainConfig) -> tuple[Counter, Counter]:
    """Calls of one forward and backward pass by op: as torch's own debugging mode sees them, and as
    we do."""
    from torch.distributed.tensor.debug import CommDebugMode

    from lab_utils.data.loader import Loader
    from lab_utils.engines import make_engine
    from lab_utils.parallel.mesh import Mesh

    mesh = Mesh(config.parallel)
    engine, batch = make_engine(config, "torch", mesh), Loader(config, mesh["dp"].rank).batch(0)
    engine.forward_backward(batch)
    with CommDebugMode() as theirs:
        engine.forward_backward(batch)
    (counter,) = engine.counters()
    with counter:
        engine.forward_backward(batch)
    ours = {
        "all_gather_into_tensor": "all_gather",
        "_allgather_base_": "all_gather",
        "reduce_scatter_tensor": "reduce_scatter",
        "_reduce_scatter_base_": "reduce_scatter",
        "all_reduce": "all_reduce",
        "allreduce_": "all_reduce",
    }
    seen: Counter = Counter()
    for op, calls in theirs.get_comm_counts().items():
        seen[ours[op.__name__]] += calls
    return seen, Counter(call.op for call in mesh.ledger.calls)


UNITS, LAYERS = MODEL.layers + 1, MODEL.layers


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("zero 3", {"all_gather": 2 * UNITS, "reduce_scatter": UNITS}),
        (
            "tp, sp",
            {
                "all_gather": 4 * LAYERS + 2,
                "reduce_scatter": 4 * LAYERS + 2,
                "all_reduce": 3 + 2 * (2 * LAYERS + 1) + 1,
            },
        ),
    ],
)
def test_torchs_own_debugging_mode_sees_the_same_calls(name, calls):
    config = CONFIGS[name]
    # it loses its place in a second forward pass
    at_once = config.replace(micro_batch=config.global_batch // config.parallel.dp)
    for theirs, ours in launch(both_counts, 2, at_once, threads=1):
        assert theirs == ours == calls


def uncountable() -> str:
    import torch
    import torch.distributed as dist

    from lab_utils.measure.traffic import OutsideCounter
    from lab_utils.parallel.mesh import Mesh

    mesh, said = Mesh(TrainConfig.of("tiny", dp=2, tp=2).parallel), []
    with OutsideCounter(mesh):
        for call in (
            lambda: dist.all_reduce(torch.ones(2)),
            lambda: dist.reduce(torch.ones(2), group=mesh["dp"].group, group_dst=0),
        ):
            try:
                call()
            except RuntimeError as error:
                said.append(str(error))
        dist.barrier()
    return " / ".join(said)


def test_what_cannot_be_counted_is_an_error():
    everyone, reduce = (
        "the process group of ranks [0, 1, 2, 3] is no axis of the mesh",
        "no rule for counting c10d.reduce_.default",
    )
    assert launch(uncountable, 4, threads=1) == [f"{everyone} / {reduce}"] * 4
