"""What lab 12's checks hold answers against is held itself, by torch's AdamW and this package's
Lion and Muon; and its cases tell every mistake from what is right, and from the others."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
import torch
from torch import nn

from lab_utils.course.checks.lab12 import (
    adamw,
    adamw_rule,
    lion,
    lion_rule,
    muon_rule,
    sharded_muon,
)
from lab_utils.course.checks.lab12.muon import UNFAIR, best_split
from lab_utils.optimizers.lion import Lion
from lab_utils.optimizers.muon import orthogonalise


def cases(exercise):
    return [*exercise.visible, *exercise.draw(Random(5))]


@pytest.mark.parametrize("case", cases(adamw), ids=str)
def test_adamw_in_float64_is_torchs(case):
    model = case.model()
    parameters = dict(model.named_parameters())
    groups = [{"params": []}, {"params": [], "weight_decay": 0.0}]
    for name, p in parameters.items():
        if p.requires_grad:
            groups[not is_decayed(case, name)]["params"].append(p)
    optimizer = torch.optim.AdamW(
        groups, lr=1.0, betas=case.betas, eps=case.eps, weight_decay=case.weight_decay
    )
    for step in range(adamw_rule.STEPS):
        for name, gradient in case.gradients(step).items():
            parameters[name].grad = gradient
        for group, decayed in zip(optimizer.param_groups, (True, False), strict=True):
            group["lr"] = case.rate(step, decayed)
        optimizer.step()
        for name, want in adamw_rule.weights(case)[step + 1].items():
            torch.testing.assert_close(parameters[name].detach(), want, rtol=1e-12, atol=1e-12)


def is_decayed(case, name):
    """By the modules that a parameter is in, not by its name."""
    model = case.model()
    p = dict(model.named_parameters())[name]
    embedded = any(p is m.weight for m in model.modules() if isinstance(m, nn.Embedding))
    return p.ndim > 1 and not embedded


@pytest.mark.parametrize("case", cases(lion), ids=str)
def test_lion_in_float64_is_this_packages(case):
    parameters = [nn.Parameter(w) for w in case.first()]
    optimizer = Lion(parameters, lr=case.lr, betas=case.betas)
    for step in range(lion_rule.STEPS):
        there = [p for p, g in zip(parameters, case.gradients(step), strict=True) if g is not None]
        for p, gradient in zip(parameters, case.gradients(step), strict=True):
            p.grad = gradient
        with torch.no_grad():
            for p in there:
                p.mul_(1 - case.lr * case.weight_decay)
        optimizer.param_groups[0]["params"] = there
        optimizer.step()
        for p, want in zip(parameters, lion_rule.weights(case, "right")[step + 1], strict=True):
            torch.testing.assert_close(p.detach(), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (7, 7)])
def test_singular_values_and_products_come_to_the_same(shape):
    matrix = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = muon_rule.orthogonalised(matrix, muon_rule.FIVE)
    torch.testing.assert_close(found, orthogonalise(matrix), rtol=1e-9, atol=1e-9)
    settled = torch.linalg.svdvals(muon_rule.orthogonalised(matrix, muon_rule.SETTLED * 3))
    torch.testing.assert_close(settled, torch.ones_like(settled), rtol=0, atol=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_first_is_never_called_unfair(seed):
    for case in [*sharded_muon.visible, *sharded_muon.draw(Random(seed))]:
        loads = [0] * case.ranks
        for work in sorted((case.work(case.shapes[i]) for i in case.matrices), reverse=True):
            loads[loads.index(min(loads))] += work
        assert best_split(case) <= max(loads) <= UNFAIR * best_split(case)


@pytest.mark.parametrize("seed", range(8))
def test_no_two_mistakes_in_adamw_come_to_the_same(seed):
    plain = adamw.visible[0] if seed == 0 else adamw.draw(Random(seed))[0]
    rates = adamw.visible[4] if seed == 0 else adamw.draw(Random(seed))[4]
    names = [m for m in adamw_rule.MISTAKES if m != "first-rate"]
    # after two steps: who forgets the moments between them does nothing wrong in the first
    told_apart(lambda m: list(adamw_rule.weights(plain, m)[2].values()), ["right", *names])
    told_apart(lambda m: list(adamw_rule.weights(rates, m)[2].values()), ["right", "first-rate"])


@pytest.mark.parametrize("seed", range(8))
def test_no_two_mistakes_in_lion_come_to_the_same(seed):
    case = lion.draw(Random(seed))[0]
    told_apart(lambda m: lion_rule.weights(case, m)[2], ["right", *lion_rule.MISTAKES])


def told_apart(weights, mistakes):
    """Ten thousand times farther apart than what a check lets pass."""
    flat = {m: torch.cat([w.flatten() for w in weights(m)]) for m in mistakes}
    for one, other in combinations(mistakes, 2):
        assert (flat[one] - flat[other]).abs().max() > 1e-4, (one, other)
