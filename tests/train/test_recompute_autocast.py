"""Under autocast, too, what is recomputed is what was computed, and no copy of a weight outlives
its use."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from recomputation import BY, POLICIES, bf16, check_same, gpt, step
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import lab_utils.parallel.recompute as room
from lab_utils.parallel.recompute import checkpoint, recompute


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("policy", POLICIES[1:])
@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        (bf16, nullcontext),
        (partial(bf16, cache_enabled=False), nullcontext),
        (bf16, bf16),
        (nullcontext, bf16),
    ],
    ids=["forward", "forward uncached", "both", "backward"],
)
def test_under_autocast_too(forward, backward, policy, by):
    model, plain = gpt(), gpt()
    recompute(model, policy, by)
    reference = step(plain, forward, backward)
    check_same(step(model, forward, backward), reference)
    # bf16 really was at work
    assert torch.equal(reference.loss, step(gpt()).loss) == (forward is nullcontext)


def test_without_autocast_s_settings_that_would_fail(monkeypatch):
    of = room._Circumstances.of
    monkeypatch.setattr(room._Circumstances, "of", lambda inputs: of(inputs)._replace(autocast=[]))
    model = gpt()
    recompute(model, "full")
    with pytest.raises(AssertionError, match="gradients of .* differ"):
        check_same(step(model, bf16), step(gpt(), bf16))


@pytest.mark.parametrize("cached", [True, False])
def test_the_second_run_finds_autocast_as_the_caller_had_set_it(cached):
    seen = []

    def look(x: Tensor) -> Tensor:
        seen.append(
            (
                torch.is_autocast_enabled("cpu"),
                torch.get_autocast_dtype("cpu"),
                torch.is_autocast_cache_enabled(),
                torch.is_grad_enabled(),
            )
        )
        return x * 2

    with torch.autocast("cpu", torch.float16, cache_enabled=cached):
        y = checkpoint(look, torch.ones(1, requires_grad=True))
        assert torch.is_autocast_cache_enabled() == cached
    y.backward()
    assert seen == [(True, torch.float16, False, False), (True, torch.float16, cached, True)]
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    ("run", "alive"),
    [(checkpoint, 0), (lambda function, x: function(x), 1)],
    ids=["checkpoint", "plain"],
)
def test_no_weight_copy_outlives_the_first_run(run, alive):
    layer, x, copies = nn.Linear(4, 3, bias=False), torch.ones(2, 4), []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **kwargs or {})
            if function is torch.ops.aten._to_copy.default and result.shape == layer.weight.shape:
                copies.append(weakref.ref(result.untyped_storage()))
            return result

    with bf16(), Watch():
        y = run(layer, x)
        assert (y.dtype, len(copies), sum(copy() is not None for copy in copies)) == (
            torch.bfloat16,
            1,
            alive,
        )
