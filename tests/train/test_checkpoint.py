"""checkpoint itself, without a model: inputs and outputs of every sort, and who is told of a second
run."""

from __future__ import annotations

import pytest
import torch
from recomputation import BY, LAYERS, bf16, count_calls, gpt, step
from torch import Tensor, nn

from lab_utils.measure.memory import SavedActivations
from lab_utils.parallel.recompute import checkpoint, observe_recomputation, recompute


@pytest.mark.parametrize("by", BY)
def test_parameters_alone_may_want_gradients_and_their_hooks_fire_once(by):
    layer, plain, fired = nn.Linear(3, 2), nn.Linear(3, 2), []
    plain.load_state_dict(layer.state_dict())
    for parameter in layer.parameters():
        parameter.register_post_accumulate_grad_hook(fired.append)
    y = by(layer, torch.ones(4, 3))
    assert y.requires_grad
    y.square().sum().backward()
    plain(torch.ones(4, 3)).square().sum().backward()
    assert len(fired) == 2
    assert torch.equal(layer.weight.grad, plain.weight.grad)
    assert torch.equal(layer.bias.grad, plain.bias.grad)


def many(x: Tensor, scale: float, w: Tensor, fixed: Tensor, index: Tensor) -> tuple[Tensor, ...]:
    """Outputs of every sort: a product, one never used, integers, an input as it came, a constant,
    views."""
    return x * w * scale + fixed, x.exp(), index + 1, w, torch.ones(3), *(x * x).chunk(3)


@pytest.mark.parametrize("by", BY)
def test_inputs_and_outputs_of_every_sort(by):
    def gradients(by) -> list[Tensor | None]:
        x, w, fixed = (
            torch.arange(3.0, requires_grad=True),
            torch.full((3,), 2.0, requires_grad=True),
            torch.ones(3),
        )
        product, _, index, same, constant, first, *_ = by(
            many, x * 1, 3.0, w, fixed, torch.arange(3)
        )
        assert (index.tolist(), index.requires_grad) == ([1, 2, 3], False)
        (product.sum() + same.square().sum() + first.sum() + constant.sum()).backward()
        return [x.grad, w.grad, fixed.grad]

    x, w, fixed = gradients(by)
    plain = gradients(lambda function, *inputs: function(*inputs))
    assert fixed is plain[2] is None
    assert torch.equal(x, plain[0])
    assert torch.equal(w, plain[1])


def test_the_same_tensor_twice():
    x = torch.tensor(3.0, requires_grad=True)
    checkpoint(torch.mul, x, x).backward()
    assert x.grad == 6


def test_outputs_that_lead_nowhere_give_no_gradients():
    x = torch.ones(2, requires_grad=True)
    checkpoint(lambda x: (x * 2, torch.ones(2)), x)[1].sum().backward()
    assert x.grad is None


def test_without_gradients_it_runs_once_and_keeps_nothing():
    layer, casts_cached = nn.Linear(2, 2), []
    with torch.no_grad(), bf16(), SavedActivations(layer) as meter:
        y = checkpoint(
            lambda x: casts_cached.append(torch.is_autocast_cache_enabled()) or layer(x),
            torch.ones(1, 2, requires_grad=True),
        )
    assert (y.requires_grad, casts_cached, meter.peak) == (False, [True], 0)


@pytest.mark.parametrize(
    "ask",
    [lambda y, x: torch.autograd.grad(y, x), lambda y, x: y.backward(inputs=[x])],
    ids=["grad", "inputs"],
)
def test_what_would_leave_unwanted_gradients_in_parameters_is_refused(ask):
    layer, x = nn.Linear(2, 1), torch.ones(1, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="only"):
        ask(checkpoint(layer, x), x)
    assert layer.weight.grad is None


def test_a_kept_graph_is_run_again_and_a_freed_one_is_not():
    x, calls = torch.tensor(3.0, requires_grad=True), []
    y = checkpoint(lambda x: calls.append(1) or x * x, x)
    y.backward(retain_graph=True)
    y.backward()
    assert (x.grad, len(calls)) == (12, 3)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


# who watches


@pytest.mark.parametrize("by", BY)
def test_observers_hear_of_every_second_run_and_of_nothing_else(by):
    model, heard = gpt(), []
    calls = count_calls(model, ["blocks.0", "blocks.1", "blocks.2"])
    recompute(model, "0,2", by)
    for number, block in enumerate(model.blocks):
        block.register_full_backward_pre_hook(
            lambda *_, number=number: heard.append(f"backward {number}")
        )
    with (
        observe_recomputation(lambda begins: heard.append((begins, sum(calls.values())))),
        observe_recomputation(heard.append),
    ):
        step(model)
    expected = [
        "backward 3",
        "backward 2",
        (True, 3),
        True,
        (False, 4),
        False,
        "backward 1",
        "backward 0",
        (True, 4),
        True,
        (False, 5),
        False,
    ]
    assert heard == expected
    step(model)
    assert [h for h in heard[len(expected) :] if not isinstance(h, str)] == []


def test_the_inner_core_s_second_run_lies_outside_the_block_s():
    model, heard = gpt(), []
    for policy in ("selective", "full"):
        recompute(model, policy)
    with observe_recomputation(heard.append):
        step(model)
    assert heard == [True, False, True, False] * LAYERS


def test_an_error_in_the_second_run_reaches_the_caller_and_the_observers():
    heard = []

    def fails_later(x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            raise ArithmeticError("again")
        return x * 2

    y, before = checkpoint(fails_later, torch.ones(1, requires_grad=True)), torch.get_rng_state()
    with observe_recomputation(heard.append), pytest.raises(ArithmeticError, match="again"):
        y.backward()
    assert heard == [True, False]
    assert torch.equal(torch.get_rng_state(), before)
