"""The 3D planner: its groups are a partition, its times and bytes are the planner's, and it says
what is wrong with an order."""

from __future__ import annotations

from itertools import product

import pytest

from lab_utils.config import ModelConfig
from lab_utils.config.presets import PRESETS
from lab_utils.estimate.plan import plan
from lab_utils.estimate.time.links import axis_stride
from lab_utils.widgets.three_d import costs, grid_scene, plan_scene

LAYOUT = {"model": "llama3-70b", "batch": 512, "tp": 8, "pp": 2, "zero": 1}


@pytest.mark.parametrize("order", grid_scene.ORDERS)
def test_groups_of_an_axis_are_alike_and_leave_nobody_out(order):
    for tp, pp, axis in product((2, 8), (2, 4), ("tp", "pp", "dp")):
        state = {"tp": tp, "pp": pp, "order": order, "axis": axis}
        firsts = [grid_scene.group_number(rank, state) for rank in range(costs.GPUS)]
        size = grid_scene.sizes_of(state)[axis]
        assert {firsts.count(first) for first in firsts} == {size}


def test_our_order_is_the_engines():
    config = costs.cost_of(LAYOUT).config
    for axis in ("tp", "pp", "dp"):
        state = {"tp": 8, "pp": 2, "order": ("dp", "pp", "tp"), "axis": axis}
        assert grid_scene.stride_of(state) == axis_stride(config.parallel, axis)


def test_the_wrong_order_tears_tp_apart():
    state = {"tp": 8, "pp": 2, "axis": "tp"}
    machines = [grid_scene.machines_of_group(state | {"order": o}) for o in grid_scene.ORDERS]
    assert machines == [1, 1, 8]


def test_a_layout_costs_what_the_planner_says():
    pins = dict(tp=8, pp=2, zero=1, micro_batch=1, schedule="1f1b")
    model = ModelConfig(**PRESETS["llama3-70b"])
    one = plan(model, costs.GPU, costs.GPUS, 512, top=1, **pins)[0]
    cost = costs.cost_of(LAYOUT)
    assert cost.held == one.memory_bytes
    assert cost.seconds == pytest.approx(one.seconds, rel=0.02)  # which plays its pipeline through
    assert cost.mfu == pytest.approx(one.time.mfu, rel=0.02)
    assert cost.seconds == pytest.approx(sum(cost.parts.values()))


def test_nothing_fits_behind_the_planner():
    for model, batch in product(costs.MODELS, costs.BATCHES):
        late = [
            plan_scene.behind(dict(zip(costs.SETTING, (model, batch, *rest), strict=True)))
            for rest in product(costs.TP, costs.PP, costs.ZERO)
        ]
        fitting = [one for one in late if one is not None]
        assert fitting
        assert min(fitting) >= -1e-9
