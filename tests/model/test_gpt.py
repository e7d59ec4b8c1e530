"""GPT in all its variants: causal, exact where two ways must agree, the same weights whoever draws
them."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from lab_utils.config import ModelConfig
from lab_utils.layout.parameters import parameter_count, parameter_shapes
from lab_utils.model import GPT, IGNORED, loss_sum_and_count, rotate

VARIANTS = [
    dict(
        zip(
            ("norm", "activation", "positions", "attention", "bias", "tied", "kv_heads"),
            values,
            strict=True,
        )
    )
    for values in itertools.product(
        ("layernorm", "rmsnorm"),
        ("gelu", "swiglu"),
        ("learned", "rope"),
        ("sdpa", "explicit"),
        (True, False),
        (True, False),
        (4, 2, 1),
    )
]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tiny products gain nothing from threads, and lose much where the cores are shared."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def small(**variant) -> ModelConfig:
    return ModelConfig(**{"layers": 2, "hidden": 32, "heads": 4, "vocab": 50, "seq": 12, **variant})


def numbers(*shape: int, vocab: int = 50, seed: int = 1) -> torch.Tensor:
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def louder(model: GPT) -> GPT:
    """Weights of 0.02 make attention nearly uniform, which hides errors: make them larger."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(15)
    return model


def test_every_variant_is_causal_and_uses_what_came_before():
    for variant in VARIANTS:
        model, tokens = louder(GPT(small(**variant))), numbers(2, 12)
        other = tokens.clone()
        other[:, 7] = (other[:, 7] + 1) % 50
        with torch.no_grad():
            a, b = model(tokens), model(other)
        assert torch.equal(a[:, :7], b[:, :7]), variant
        changed = (a - b).abs().amax(-1)[:, 7:]
        # attention really looks back: later logits all move
        assert (changed > 1e-4).all(), variant


def test_written_out_attention_equals_the_fused_one():
    for variant in (v for v in VARIANTS if v["attention"] == "sdpa"):
        tokens, targets = numbers(3, 12), numbers(3, 12, seed=2)
        gradients, logits = [], []
        for attention in ("sdpa", "explicit"):
            model = louder(GPT(small(**variant | {"attention": attention})))
            loss, count = model(tokens, targets)
            (loss / count).backward()
            logits.append(model(tokens).detach())
            gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        assert torch.allclose(*logits, rtol=1e-5, atol=1e-5), variant
        assert (gradients[0] - gradients[1]).norm() / gradients[1].norm() < 1e-5, variant


def test_names_and_shapes_are_those_of_the_layout_in_the_same_order():
    for variant in VARIANTS:
        for extra in ({}, {"head_dim": 6, "ffn": 20}):
            config = small(**variant, **extra)
            model = GPT(config)
            assert [(n, tuple(p.shape)) for n, p in model.named_parameters()] == list(
                parameter_shapes(config).items()
            ), variant
            assert sum(p.numel() for p in model.parameters()) == parameter_count(config)


def test_loss_is_a_sum_and_ignored_targets_count_for_nothing():
    model, tokens, targets = GPT(small()), numbers(3, 12), numbers(3, 12, seed=2)
    targets[0, :5] = IGNORED
    targets[2] = IGNORED
    loss, count = model(tokens, targets)
    log_probabilities = model(tokens).log_softmax(-1)
    expected = -sum(
        log_probabilities[b, s, targets[b, s]]
        for b in range(3)
        for s in range(12)
        if targets[b, s] != IGNORED
    )
    assert count.item() == 7 + 12
    assert count.dtype == torch.int64
    assert loss.dim() == count.dim() == 0
    assert torch.isclose(loss, expected, rtol=1e-5)
    assert model(tokens).shape == (3, 12, 50)


def test_sums_of_parts_make_the_whole_however_unevenly_targets_are_spread():
    logits, targets = torch.randn(6, 12, 50), numbers(6, 12, seed=3)
    targets[:2] = IGNORED
    targets[2, 1:] = IGNORED
    whole = loss_sum_and_count(logits, targets)
    parts = [loss_sum_and_count(logits[i : i + 2], targets[i : i + 2]) for i in (0, 2, 4)]
    assert torch.isclose(sum(loss for loss, _ in parts), whole[0])
    assert sum(count for _, count in parts) == whole[1]
    assert parts[0][0].item() == 0


def test_weights_depend_on_seed_and_name_alone():
    torch.manual_seed(1)
    first = GPT(small(), seed=5)
    torch.manual_seed(2)
    torch.randn(100)
    again, other = GPT(small(), seed=5), GPT(small(), seed=6)
    for (name, a), b, c in zip(
        first.named_parameters(), again.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(a, b), name
        assert torch.equal(a, c) == (a.dim() == 1), name  # biases and norms are not drawn
    deeper = dict(
        GPT(small(positions="rope", activation="swiglu", tied=True), seed=5).named_parameters()
    )
    same = dict(first.named_parameters())
    # whatever else is in the model
    for name in ("token_embedding.weight", "blocks.1.attention.key.weight"):
        assert torch.equal(deeper[name], same[name])
    drawn = [p.flatten()[:4].tolist() for p in first.parameters() if p.dim() > 1]
    assert len({tuple(d) for d in drawn}) == len(drawn)  # no two parameters share their numbers


def test_weights_are_as_wide_as_they_should_be():
    parameters = dict(GPT(small(hidden=256, layers=8)).named_parameters())
    assert parameters["blocks.3.mlp.up.weight"].std().item() == pytest.approx(0.02, rel=0.02)
    assert parameters["blocks.3.mlp.down.weight"].std().item() == pytest.approx(0.02 / 4, rel=0.02)
    assert parameters["blocks.3.attention.output.weight"].std().item() == pytest.approx(
        0.02 / 4, rel=0.02
    )


def test_tied_means_one_tensor():
    model = GPT(small(tied=True))
    assert model.head.weight is model.token_embedding.weight
    assert GPT(small()).head.weight is not GPT(small()).token_embedding.weight


def test_rotary_scores_depend_on_the_distance_alone():
    q, k = torch.randn(16), torch.randn(16)
    turned_q, turned_k = (rotate(x.expand(1, 1, 20, 16).contiguous())[0, 0] for x in (q, k))
    scores = turned_q @ turned_k.T
    for distance in (-5, 0, 3):
        along = scores.diagonal(distance)
        assert torch.allclose(along, along[:1].expand_as(along), atol=1e-4)
    assert not torch.allclose(scores.diagonal(3)[0], scores.diagonal(0)[0], atol=1e-3)
    assert torch.allclose(turned_q.norm(dim=-1), q.norm().expand(20), atol=1e-4)
    assert torch.equal(turned_q[0], q)


def test_grouped_heads_share_keys_and_values():
    """Grouped-query attention equals ordinary attention whose key and value rows are repeated for
    every head of a group."""
    grouped, full = GPT(small(kv_heads=2)), GPT(small(kv_heads=4))
    with torch.no_grad():
        weights = grouped.state_dict()
        for name in weights:
            if ".key." in name or ".value." in name:
                weights[name] = (
                    weights[name].unflatten(0, (2, 8)).repeat_interleave(2, dim=0).flatten(0, 1)
                )
        full.load_state_dict(weights)
        assert torch.allclose(grouped(numbers(2, 12)), full(numbers(2, 12)), atol=1e-6)


def test_shorter_sequences_and_one_token():
    for variant in ({}, {"positions": "rope", "attention": "explicit"}):
        model, tokens = GPT(small(**variant)), numbers(2, 12)
        with torch.no_grad():
            assert torch.allclose(model(tokens[:, :5]), model(tokens)[:, :5], atol=1e-5)
            assert torch.isfinite(F.softmax(model(tokens[:, :1]), -1)).all()
