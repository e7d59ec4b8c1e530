"""What is recomputed is what was computed: to the bit, whatever the policy, the random numbers and autocast."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import lab_utils.train.recompute as room
from lab_utils import TrainConfig, i18n
from lab_utils.measure.memory import SavedActivations
from lab_utils.model import GPT, initialize
from lab_utils.train.recompute import checkpoint, observe_recomputation, recompute, torch_checkpoint

LAYERS, BATCH, SEQ, HIDDEN = 4, 2, 16, 32
SHAPES = {"gelu": {}, "swiglu": {"norm": "rmsnorm", "activation": "swiglu", "positions": "rope", "kv_heads": 2, "bias": False}}
POLICIES = ["none", "selective", "full", "0,2"]
BY = [checkpoint, torch_checkpoint]
RESIDUAL = 4 * BATCH * SEQ * HIDDEN      # bytes of one block's input


class Step(NamedTuple):
    """What a training step leaves behind."""

    loss: Tensor
    gradients: dict[str, Tensor]
    generator: Tensor


def gpt(**shape) -> GPT:
    return GPT(TrainConfig.of("tiny", layers=LAYERS, hidden=HIDDEN, heads=4, vocab=64, seq=SEQ, **shape).model)


def tokens() -> Tensor:
    return torch.randint(64, (BATCH, SEQ), generator=torch.Generator().manual_seed(1))


def step(model: GPT, forward=nullcontext, backward=nullcontext, seed: int = 7) -> Step:
    torch.manual_seed(seed)
    with forward():
        loss, _ = model(tokens(), tokens())
    with backward():
        loss.backward()
    return Step(loss.detach(), {name: p.grad for name, p in model.named_parameters()}, torch.get_rng_state())


def check_same(step: Step, reference: Step) -> None:
    assert torch.equal(step.loss, reference.loss), "losses differ"
    assert step.gradients.keys() == reference.gradients.keys(), "names differ"
    for name, gradient in reference.gradients.items():
        assert gradient.count_nonzero(), name
        assert torch.equal(step.gradients[name], gradient), f"gradients of {name} differ"
    assert torch.equal(step.generator, reference.generator), "random numbers go on differently"


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("attention", ["sdpa", "explicit"])
@pytest.mark.parametrize("shape", SHAPES)
def test_losses_and_gradients_are_equal_to_the_bit(shape, attention, policy, by):
    model, plain = (gpt(**SHAPES[shape], attention=attention) for _ in range(2))
    recompute(model, policy, by)
    check_same(step(model), step(plain))


# random numbers

class LeakyCore(nn.Module):
    """An attention core followed by dropout."""

    def __init__(self, core: nn.Module) -> None:
        super().__init__()
        self.core, self.dropout = core, nn.Dropout(0.3)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.dropout(self.core(q, k, v))


def with_dropout(policy: str, by=checkpoint) -> GPT:
    model = gpt()
    for block in model.blocks:
        block.attention.core = LeakyCore(block.attention.core)
        block.mlp = nn.Sequential(block.mlp, nn.Dropout(0.3))
    recompute(model, policy, by)
    return model


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("policy", POLICIES)
def test_dropout_drops_the_same_twice_and_random_numbers_go_on_as_if_once(policy, by):
    plain = step(with_dropout("none"))
    assert not torch.equal(plain.loss, step(with_dropout("none"), seed=8).loss)
    check_same(step(with_dropout(policy, by)), plain)


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_without_the_generator_s_state_that_would_fail(policy, monkeypatch):
    monkeypatch.setattr(room._Circumstances, "_replay_random_numbers", lambda self: None)
    with pytest.raises(AssertionError, match="gradients of .* differ"):
        check_same(step(with_dropout(policy)), step(with_dropout("none")))


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_without_the_fork_that_would_fail(policy, monkeypatch):
    monkeypatch.setattr(torch.random, "fork_rng", lambda **kwargs: nullcontext())
    with pytest.raises(AssertionError, match="random numbers go on differently"):
        check_same(step(with_dropout(policy)), step(with_dropout("none")))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("by", BY)
def test_dropout_on_a_gpu(by):
    def gradient(by) -> tuple[Tensor, Tensor]:
        torch.manual_seed(3)
        x = torch.ones(1000, device="cuda", requires_grad=True)
        by(nn.Dropout(0.5), x).sum().backward()
        return x.grad, torch.cuda.get_rng_state()

    recomputed, plain = gradient(by), gradient(lambda function, x: function(x))
    assert all(torch.equal(a, b) for a, b in zip(recomputed, plain, strict=True))


# autocast

bf16 = partial(torch.autocast, "cpu", torch.bfloat16)


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("policy", POLICIES[1:])
@pytest.mark.parametrize(("forward", "backward"), [(bf16, nullcontext), (partial(bf16, cache_enabled=False), nullcontext), (bf16, bf16), (nullcontext, bf16)],
                         ids=["forward", "forward uncached", "both", "backward"])  # fmt: skip
def test_under_autocast_too(forward, backward, policy, by):
    model, plain = gpt(), gpt()
    recompute(model, policy, by)
    reference = step(plain, forward, backward)
    check_same(step(model, forward, backward), reference)
    assert torch.equal(reference.loss, step(gpt()).loss) == (forward is nullcontext)      # bf16 really was at work


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
        seen.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled(), torch.is_grad_enabled()))
        return x * 2

    with torch.autocast("cpu", torch.float16, cache_enabled=cached):
        y = checkpoint(look, torch.ones(1, requires_grad=True))
        assert torch.is_autocast_cache_enabled() == cached
    y.backward()
    assert seen == [(True, torch.float16, False, False), (True, torch.float16, cached, True)]
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(("run", "alive"), [(checkpoint, 0), (lambda function, x: function(x), 1)], ids=["checkpoint", "plain"])
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
        assert (y.dtype, len(copies), sum(copy() is not None for copy in copies)) == (torch.bfloat16, 1, alive)


# how often, and what is kept

def count_calls(model: nn.Module, names: list[str]) -> dict[str, int]:
    """Calls of `forward` of these modules, patched before any policy is."""
    calls = dict.fromkeys(names, 0)

    def counted(name: str, forward, *inputs):
        calls[name] += 1
        return forward(*inputs)

    for name in names:
        module = model.get_submodule(name)
        module.forward = partial(counted, name, module.forward)
    return calls


@pytest.mark.parametrize(("policies", "block", "core"), [
    (["none"], [1, 1], [1, 1]), (["selective"], [1, 1], [2, 2]), (["full"], [2, 2], [2, 2]), (["1"], [1, 2], [1, 2]),
    (["selective", "full"], [2, 2], [3, 3]),      # once more inside the block's second run, which again keeps only q, k, v
])  # fmt: skip
def test_how_often_each_part_runs(policies, block, core):
    model, plain = gpt(), gpt()
    names = [f"blocks.{i}{part}" for part in ("", ".attention.core") for i in (0, 1)] + ["final_norm"]
    calls = count_calls(model, names)
    for policy in policies:
        recompute(model, policy)
    check_same(step(model), step(plain))
    assert list(calls.values()) == [*block, *core, 1]


def saved_bytes(run, model: nn.Module) -> tuple[int, int]:
    """Bytes saved when the forward pass is over, and the most at one moment of forward and backward."""
    meter = SavedActivations(model)
    with meter:
        result = run()
        after_forward = meter.now
        (result[0] if isinstance(result, tuple) else result).sum().backward()
    del result
    assert meter.now == 0
    return after_forward, meter.peak


def test_what_the_second_run_returns_is_gone_before_the_backward_through_it():
    output, alive = [], []

    def shifted(x: Tensor) -> Tensor:
        y = x * 2
        z = y + 1
        if y.requires_grad:
            output.append(weakref.ref(z.untyped_storage()))
            y.register_hook(lambda gradient: alive.append(output[0]() is not None))
        return z

    checkpoint(shifted, torch.ones(5, requires_grad=True)).sum().backward()
    assert alive == [False]


def model_bytes(*policies: str, layers: int = LAYERS, **shape) -> tuple[int, int]:
    model = gpt(**shape)
    model.blocks = model.blocks[:layers]
    for policy in policies:
        recompute(model, policy)
    return saved_bytes(lambda: model(tokens(), tokens()), model)


@pytest.mark.parametrize("attention", ["sdpa", "explicit"])
@pytest.mark.parametrize("shape", SHAPES)
def test_full_keeps_the_blocks_inputs_and_at_its_peak_one_block_besides(shape, attention):
    shape = SHAPES[shape] | {"attention": attention}
    outside, _ = model_bytes("full", layers=0, **shape)
    after_forward, peak = model_bytes("full", **shape)
    assert after_forward == outside + LAYERS * RESIDUAL
    model, x = gpt(**shape), torch.randn(BATCH, SEQ, HIDDEN, requires_grad=True)
    one_block, _ = saved_bytes(lambda: model.blocks[0](x), model)
    embedding, _ = saved_bytes(lambda: model.embed(tokens()), model)
    assert peak == max(after_forward, embedding + (LAYERS - 1) * RESIDUAL + one_block)
    everything, _ = model_bytes("none", **shape)
    assert everything == outside + LAYERS * one_block
    assert model_bytes("0,2", **shape)[0] == (everything + after_forward) / 2


def test_selective_keeps_no_scores_and_inside_full_lowers_the_peak():
    none, selective, full, both = (model_bytes(*policies, attention="explicit") for policies in (["none"], ["selective"], ["full"], ["selective", "full"]))
    assert none[0] - selective[0] >= LAYERS * 4 * BATCH * 4 * SEQ * SEQ      # softmax: 4 heads, 4 bytes
    assert both[0] == full[0]
    assert both[1] < full[1]


# the model as it may be met: a stage's blocks, no weights yet, a word that is none

def test_a_stage_patches_the_blocks_that_it_holds_by_their_numbers():
    model = gpt()
    model.blocks = nn.ModuleDict({"2": model.blocks[2], "3": model.blocks[3]})
    names = [name for name, _ in model.named_parameters()]
    recompute(model, "0, 3")
    assert ["forward" in vars(block) for block in model.blocks.values()] == [False, True]
    recompute(model, "selective")
    assert all("forward" in vars(block.attention.core) for block in model.blocks.values())
    assert [name for name, _ in model.named_parameters()] == names


@pytest.mark.parametrize("policy", POLICIES)
def test_it_may_come_before_the_weights(policy):
    with torch.device("meta"):
        model = gpt()
    recompute(model, policy)
    initialize(model.to_empty(device="cpu"), model.config, seed=0)
    check_same(step(model), step(gpt()))


def test_shapes_alone_suffice():
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = with_dropout("full")
        model(torch.zeros(BATCH, SEQ, dtype=torch.int64), torch.zeros(BATCH, SEQ, dtype=torch.int64))[0].backward()
    assert all(p.grad.shape == p.shape for p in model.parameters())


@pytest.mark.parametrize("word", ["everything", "", "-1", "0,,2", "1.5"])
@pytest.mark.parametrize(("language", "message"), [("en", "use none, selective, full"), ("zh", "无效：可用 none、selective、full")])
def test_a_word_that_is_no_policy_is_refused_in_the_reader_s_language(word, language, message, monkeypatch):
    monkeypatch.setattr(i18n, "_chosen", language)
    with pytest.raises(ValueError, match=message):
        recompute(gpt(), word)


# checkpoint itself

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
    """Outputs of every sort: a product, one never used, integers, an input as it came, a constant, views."""
    return x * w * scale + fixed, x.exp(), index + 1, w, torch.ones(3), *(x * x).chunk(3)


@pytest.mark.parametrize("by", BY)
def test_inputs_and_outputs_of_every_sort(by):
    def gradients(by) -> list[Tensor | None]:
        x, w, fixed = torch.arange(3.0, requires_grad=True), torch.full((3,), 2.0, requires_grad=True), torch.ones(3)
        product, _, index, same, constant, first, *_ = by(many, x * 1, 3.0, w, fixed, torch.arange(3))
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
        y = checkpoint(lambda x: casts_cached.append(torch.is_autocast_cache_enabled()) or layer(x), torch.ones(1, 2, requires_grad=True))
    assert (y.requires_grad, casts_cached, meter.peak) == (False, [True], 0)


@pytest.mark.parametrize("ask", [lambda y, x: torch.autograd.grad(y, x), lambda y, x: y.backward(inputs=[x])], ids=["grad", "inputs"])
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
        block.register_full_backward_pre_hook(lambda *_, number=number: heard.append(f"backward {number}"))
    with observe_recomputation(lambda begins: heard.append((begins, sum(calls.values())))), observe_recomputation(heard.append):
        step(model)
    expected = ["backward 3", "backward 2", (True, 3), True, (False, 4), False, "backward 1", "backward 0", (True, 4), True, (False, 5), False]
    assert heard == expected
    step(model)
    assert [h for h in heard[len(expected):] if not isinstance(h, str)] == []


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
