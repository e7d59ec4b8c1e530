"""torch's own attention with its heads shared out: masks, forms of input, and the ways in which it
is asked without gradients."""

from __future__ import annotations

import torch
from models import ROWS, batches, loss_of, made
from torch import Tensor, nn

from lab_utils import ParallelConfig, launch
from lab_utils.parallel import tensor_plans
from lab_utils.parallel.mesh import Mesh
from lab_utils.parallel.tensor_parallel import tensor_parallel

ATTENTION = [
    {"batch_first": True},
    {"batch_first": False, "masks": ("padding",)},
    {"batch_first": True, "masks": ("bool",), "bias": False},
    {"batch_first": True, "masks": ("float", "padding")},
    {"batch_first": True, "masks": ("of each head",), "cross": True},
]


def attention_off(ranks: int) -> list[list[Tensor]]:
    """On a rank: outputs and gradients of torch's attention, whole and shared out, by case."""
    axis, found = Mesh(ParallelConfig(tp=ranks))["tp"], []
    for case in ATTENTION:
        options, results = dict(case), []
        masks, cross = options.pop("masks", ()), options.pop("cross", False)
        for is_cut in (False, True):
            torch.manual_seed(0)
            module = nn.MultiheadAttention(8, 4, **options)
            x, other = torch.randn(3, 5, 8, requires_grad=True), torch.randn(3, 5, 8)
            given = {}
            batch, tokens = (3, 5) if options["batch_first"] else (5, 3)
            if "padding" in masks:
                given["key_padding_mask"] = torch.rand(batch, tokens) > 0.7
            square = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
            if "bool" in masks:
                given["attn_mask"] = square
            if "float" in masks:
                given["attn_mask"] = torch.randn(tokens, tokens)
                # torch wants both of one kind
                added = torch.zeros(batch, tokens)
                given["key_padding_mask"] = added.masked_fill(given["key_padding_mask"], -1e9)
            if "of each head" in masks:
                given["attn_mask"] = torch.randn(batch * 4, tokens, tokens)
            if is_cut:
                tensor_parallel(module, axis, {"": "heads"})
            key = other if cross else x
            y, _ = module(x, key, key, need_weights=False, **given)
            y.square().sum().backward()
            results.append([y.detach(), x.grad, module.out_proj.weight.grad])
        whole, part = results
        whole[2] = whole[2].chunk(ranks, 1)[axis.rank]
        found.append([*whole, *part])
    return found


def test_attention_whose_heads_are_shared_out_reads_masks_as_torch_s_does():
    for found in launch(attention_off, 2, 2, threads=1):
        for results in found:
            torch.testing.assert_close(results[3:], results[:3])


def asked_without_gradients(ranks: int) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
    """On a rank: what a trained encoder says, whole and cut, and the norm of its gradient, which
    torch would take of the parts."""
    axis, both = Mesh(ParallelConfig(tp=ranks))["tp"], []
    for is_cut in (False, True):
        model, norm = made("encoder", 0), None
        shared = tensor_parallel(model, axis, tensor_plans.ENCODER) if is_cut else None
        (x, y), *_ = batches(model, 1)
        loss_of(model, x, y).backward()
        gradients = [p.grad for p in model.parameters()]
        norm = shared.gradient_norm() if is_cut else torch.nn.utils.get_total_norm(gradients)
        hidden = torch.zeros(ROWS, 6, dtype=torch.bool)
        hidden[:, 4:] = True
        with torch.no_grad():
            masked = model.eval().encoder(x, src_key_padding_mask=hidden)[:, :4]
            both.append(([model(x), masked], norm))
    (right, norm), (came, own) = both
    return right, came, norm, own


def test_a_cut_encoder_is_asked_and_its_gradient_measured_as_the_whole_one():
    """torch has a fused way for no_grad, which would take the parts for the whole."""
    for right, came, norm, own in launch(asked_without_gradients, 2, 2, threads=1):
        torch.testing.assert_close(came, right)
        torch.testing.assert_close(own.float(), norm)
