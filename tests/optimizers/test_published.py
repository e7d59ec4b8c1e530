"""Each optimizer against its published implementation, or where there is none against its formula
written out number by number: ten steps of one process. About 10 s."""

from __future__ import annotations

import math
import warnings
from functools import partial

import pytest
import torch
from torch import nn

from lab_utils import TrainConfig
from lab_utils.data.loader import Loader
from lab_utils.engines.optimizer import decay, make_optimizer
from lab_utils.launch import launch
from lab_utils.layout.optimizer_runs import decays, is_hidden_matrix
from lab_utils.model import GPT
from lab_utils.optimizers.adafactor import Adafactor
from lab_utils.optimizers.adam8bit import Adam8bit, codebook, dequantise, quantise
from lab_utils.optimizers.lion import Lion
from lab_utils.optimizers.muon import Muon, direction_of, orthogonalise

MATRICES, VECTOR = ((64, 96), (128, 64)), (64,)


def torchao_adam():
    """Its module, with compilation (which takes minutes) left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.optim import adam, quant_utils
    return adam, quant_utils


def ten_steps(make, shapes) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    weights = [nn.Parameter(torch.randn(shape, generator=draw) * 0.1) for shape in shapes]
    optimizer = make(weights)
    for _ in range(10):
        for weight in weights:
            noise = torch.randn(weight.shape, generator=draw)
            weight.grad = noise * 0.01 + weight.detach() * 0.1
        optimizer.step()
    return [weight.detach() for weight in weights]


def apart(ours, theirs) -> float:
    return max(float((a - b).norm() / b.norm()) for a, b in zip(ours, theirs, strict=True))


def test_adafactor_is_torchs():
    shapes = (*MATRICES, VECTOR)
    theirs = ten_steps(partial(torch.optim.Adafactor, lr=1e-2), shapes)
    assert apart(ten_steps(partial(Adafactor, lr=1e-2), shapes), theirs) <= 1e-6


def test_adafactor_takes_its_size_after_the_decay():
    """torch measures the weights before it decays them, the engines after: the step is the same but
    for the factor of the decay. (The paper has no weight decay.)"""
    config = TrainConfig.of("tiny", optimizer="adafactor", lr=1e-2, weight_decay=2.0)
    draw = torch.Generator().manual_seed(0)
    before, gradient = (torch.randn(64, 96, generator=draw, dtype=torch.float64) for _ in "wg")
    ours, theirs = (nn.Parameter(before.clone()) for _ in "ot")
    ours.grad, theirs.grad = gradient.clone(), gradient.clone()
    decay([ours.detach()], [ours.grad], config, config.lr)
    make_optimizer([ours], config).step()
    torch.optim.Adafactor([theirs], lr=config.lr, weight_decay=config.weight_decay).step()
    kept = 1 - config.lr * config.weight_decay
    steps = [(weight.detach() - kept * before) for weight in (ours, theirs)]
    assert apart([steps[0]], [kept * steps[1]]) <= 1e-6 < 1e-2 < apart([steps[0]], [steps[1]])


def test_muon_is_torchs():
    """torch orthogonalises in bf16; so does ours where it is told to, and in fp32 it lands within
    bf16's rounding."""
    theirs = ten_steps(
        partial(torch.optim.Muon, lr=1e-2, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        MATRICES,
    )

    def rounded(matrices):
        return [direction_of(matrix, torch.bfloat16) for matrix in matrices]

    ours = ten_steps(partial(Muon, lr=1e-2, directions=rounded), MATRICES)
    assert apart(ours, theirs) <= 1e-5
    assert 1e-5 < apart(ten_steps(partial(Muon, lr=1e-2), MATRICES), theirs) <= 1e-2


def test_five_iterations_bring_all_singular_values_near_one():
    draw = torch.Generator().manual_seed(1)
    for shape in ((64, 64), (48, 96), (96, 48)):
        before = torch.linalg.svdvals(torch.randn(shape, generator=draw))
        after = torch.linalg.svdvals(orthogonalise(torch.randn(shape, generator=draw)))
        assert before.max() / before.min() > 4
        assert 0.6 < after.min() <= after.max() < 1.25


def test_adam8bit_is_torchaos(monkeypatch):
    adam, quant_utils = torchao_adam()
    monkeypatch.setattr(adam.torch, "compile", lambda f, **_: f)
    theirs = ten_steps(partial(adam.Adam8bit, lr=1e-2, betas=(0.9, 0.95)), MATRICES)
    assert apart(ten_steps(partial(Adam8bit, lr=1e-2), MATRICES), theirs) <= 1e-5
    for signed in (True, False):
        assert codebook(signed).tolist() == pytest.approx(
            quant_utils.create_dynamic_map(signed=signed), abs=1e-7
        )


def test_a_block_keeps_its_largest_and_every_code_is_the_nearest():
    draw = torch.Generator().manual_seed(2)
    numbers = torch.randn(1000, generator=draw) * 10 ** (torch.rand(1000, generator=draw) * 6 - 6)
    codes, largest = quantise(numbers, signed=True)
    back = dequantise(codes, largest, signed=True)
    assert largest.tolist() == [numbers[i : i + 256].abs().max() for i in range(0, 1000, 256)]
    shares, scale = codebook(True), largest.repeat_interleave(256)[:1000]
    nearest = (numbers[:, None] / scale[:, None] - shares).abs().amin(1) * scale
    assert torch.allclose((numbers - back).abs(), nearest, rtol=1e-3, atol=1e-9)
    # what plain 8 bits (256 equal steps) would lose: most of the small numbers
    small = numbers.abs() < scale / 255 / 2
    assert small.sum() > 300
    assert (back[small] != 0).float().mean() > 0.8


def test_lion_is_its_paper_number_by_number():
    shapes, lr = ((3, 5),), 1e-2
    ours = ten_steps(partial(Lion, lr=lr), shapes)[0].flatten().tolist()
    draw = torch.Generator().manual_seed(0)
    weights = (torch.randn(shapes[0], generator=draw) * 0.1).flatten().double().tolist()
    moments = [0.0] * 15
    for _ in range(10):
        noise = torch.randn(shapes[0], generator=draw).flatten().tolist()
        for i in range(15):
            gradient = noise[i] * 0.01 + weights[i] * 0.1
            weights[i] -= lr * math.copysign(1, 0.9 * moments[i] + 0.1 * gradient)
            moments[i] = 0.99 * moments[i] + 0.01 * gradient
    assert ours == pytest.approx(weights, abs=1e-5)


# -- the engine, with weight decay by name, against torch's optimizers on the whole model ----------

TINY = TrainConfig.of("tiny", layers=2, steps=6, global_batch=4, weight_decay=0.1)


def groups(model: GPT, decay: float) -> list[dict]:
    """nanoGPT's two groups, but for embeddings, which our rule leaves alone."""
    named = list(model.named_parameters())
    return [
        {"params": [p for name, p in named if decays(name)], "weight_decay": decay},
        {"params": [p for name, p in named if not decays(name)], "weight_decay": 0.0},
    ]


REFERENCE = {
    "sgd": lambda g, lr: [torch.optim.SGD(g, lr=lr, momentum=0.9)],
    "adam": lambda g, lr: [torch.optim.Adam(g, lr=lr, betas=(0.9, 0.95))],
    "adamw": lambda g, lr: [torch.optim.AdamW(g, lr=lr, betas=(0.9, 0.95))],
}


def weights_of_engine(config: TrainConfig) -> dict[str, torch.Tensor]:
    from lab_utils.engines.ours import engine_here

    engine, loader = engine_here(config)
    for step in range(config.steps):
        engine.forward_backward(loader.batch(step))
        engine.update()
    return {f.place.name: torch.from_numpy(f.values) for f in engine.weight_fragments()}


@pytest.mark.parametrize("kind", REFERENCE)
def test_engine_with_decay_groups_is_torch_with_decay_groups(kind):
    config = TINY.replace(optimizer=kind)
    (ours,) = launch(weights_of_engine, 1, config, threads=1)
    model, loader = GPT(config.model, config.seed), Loader(config)
    (optimizer,) = REFERENCE[kind](groups(model, config.weight_decay), config.lr)
    for step in range(config.steps):
        batch = loader.batch(step)
        optimizer.zero_grad()
        for micro in batch.micro_batches:
            (model(micro.tokens, micro.targets)[0] / batch.global_tokens).backward()
        optimizer.step()
    theirs = dict(model.named_parameters())
    assert ours.keys() == theirs.keys()
    # a key's bias has no gradient in truth, and Adam makes steps of the rounding
    names = [name for name in theirs if not name.endswith("key.bias")]
    difference = [(ours[n].view_as(theirs[n]) - theirs[n].detach()).norm() for n in names]
    whole = [theirs[n].detach().norm() for n in names]
    assert torch.stack(difference).norm() <= 1e-5 * torch.stack(whole).norm()


def test_decay_is_for_the_matrices_that_are_multiplied():
    model = GPT(TrainConfig.of("tiny", layers=1, bias=True).model)
    names = {name for name, _ in model.named_parameters()}
    decayed = {name for name in names if decays(name)}
    assert "head.weight" in decayed
    assert {name for name in names if is_hidden_matrix(name)} == decayed - {"head.weight"}
    kept = names - decayed
    assert kept
    assert all("norm" in name or name.endswith("bias") or "embedding" in name for name in kept)
