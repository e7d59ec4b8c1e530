"""Right answers to lab 03, exercise 2: a segment that keeps its inputs and runs again."""

from __future__ import annotations

import torch
import torch.utils.checkpoint
from torch import nn


class Recompute(torch.autograd.Function):
    """The lab's own, completed; wrong answers change one of its methods."""

    @classmethod
    def keep(cls, x, keep_as):
        return x if keep_as is None else x.to(keep_as)

    @staticmethod
    def forward(ctx, own, run, keep_as, stand_in, x, *others):
        ctx.own, ctx.run, ctx.dtype, ctx.state = own, run, x.dtype, torch.get_rng_state()
        ctx.others = [None if isinstance(o, torch.Tensor) else (o,) for o in others]
        ctx.save_for_backward(own.keep(x, keep_as), *(o for o in others if isinstance(o, torch.Tensor)))
        return own.first_run(ctx, run, x, others)

    @staticmethod
    def backward(ctx, gradient):
        kept, *tensors = ctx.saved_tensors
        tensors = iter(tensors)
        x = kept.to(ctx.dtype).detach().requires_grad_(ctx.needs_input_grad[4])
        others = [o[0] if o else next(tensors).detach().requires_grad_(need) for o, need in zip(ctx.others, ctx.needs_input_grad[5:], strict=True)]
        with torch.enable_grad():
            y = ctx.own.second_run(ctx, x, others)
        return None, None, None, None, *ctx.own.back(ctx, y, gradient, x, others)

    @staticmethod
    def first_run(ctx, run, x, others):
        return run(x, *others)

    @staticmethod
    def second_run(ctx, x, others):
        with torch.random.fork_rng():
            torch.set_rng_state(ctx.state)
            return ctx.run(x, *others)

    @staticmethod
    def back(ctx, y, gradient, x, others):
        torch.autograd.backward(y, gradient)
        return x.grad, *(o.grad if isinstance(o, torch.Tensor) else None for o in others)


class Segment(nn.Module):
    function = Recompute

    def __init__(self, layers, keep_as=None):
        super().__init__()
        self.layers, self.keep_as = nn.ModuleList(layers), keep_as

    def run(self, x, *others):
        for layer in self.layers:
            x = layer(x, *others)
        return x

    def stand_in(self, x):
        return torch.empty(0, requires_grad=True)

    def forward(self, x, *others):
        return self.function.apply(self.function, self.run, self.keep_as, self.stand_in(x), x, *others)


class SegmentByHooks:
    """No Function: the first run builds its graph with empty places, and fills them from a second run when one is asked for."""

    def __init__(self, layers, keep_as=None):
        self.layers, self.keep_as = layers, keep_as

    def run(self, x, others):
        for layer in self.layers:
            x = layer(x, *others)
        return x

    def __call__(self, x, *others):
        kept = x.detach() if self.keep_as is None else x.detach().to(self.keep_as)
        state, dtype, places, filled = torch.get_rng_state(), x.dtype, [], {}

        def leave_empty(tensor):
            places.append(None)
            return len(places) - 1

        def fill(place):
            if not filled:
                with torch.random.fork_rng(), torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(remember, lambda i: filled[i]):
                    torch.set_rng_state(state)
                    self.run(kept.to(dtype).detach().requires_grad_(needs), others)
            return filled.pop(place)

        def remember(tensor):
            filled[len(filled)] = tensor.detach()
            return len(filled) - 1

        needs = x.requires_grad
        with torch.autograd.graph.saved_tensors_hooks(leave_empty, fill):
            return self.run(x, others)


def segment_function(layers, keep_as=None):
    """A closure in the place of a module; an input that needs no gradient is replaced by one that does."""
    def run(x, *others):
        for layer in layers:
            x = layer(x, *others)
        return x

    def segment(x, *others):
        x = x if x.requires_grad else x.detach().requires_grad_()
        return Recompute.apply(Recompute, run, keep_as, None, x, *others)

    return segment


RIGHT = [Segment, SegmentByHooks, segment_function]
