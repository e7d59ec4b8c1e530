"""What is recomputed is what was computed: to the bit, whatever the policy, the random numbers and
the state the model is met in."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from recomputation import BATCH, BY, POLICIES, SEQ, SHAPES, check_same, gpt, step, with_dropout
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import lab_utils.parallel.recompute as room
from lab_utils import i18n
from lab_utils.first_values import initialize
from lab_utils.parallel.recompute import recompute


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("attention", ["sdpa", "explicit"])
@pytest.mark.parametrize("shape", SHAPES)
def test_losses_and_gradients_are_equal_to_the_bit(shape, attention, policy, by):
    model, plain = (gpt(**SHAPES[shape], attention=attention) for _ in range(2))
    recompute(model, policy, by)
    check_same(step(model), step(plain))


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
        model(
            torch.zeros(BATCH, SEQ, dtype=torch.int64), torch.zeros(BATCH, SEQ, dtype=torch.int64)
        )[0].backward()
    assert all(p.grad.shape == p.shape for p in model.parameters())


@pytest.mark.parametrize("word", ["everything", "", "-1", "0,,2", "1.5"])
@pytest.mark.parametrize(
    ("language", "message"),
    [("en", "use none, selective, full"), ("zh", "无效：可用 none、selective、full")],
)
def test_a_word_that_is_no_policy_is_refused_in_the_reader_s_language(
    word, language, message, monkeypatch
):
    monkeypatch.setattr(i18n, "_chosen", language)
    with pytest.raises(ValueError, match=message):
        recompute(gpt(), word)
