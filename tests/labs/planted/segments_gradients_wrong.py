"""Wrong answers to lab 03, exercise 2: gradients that are missing or others, arguments, bits, what is returned."""

from __future__ import annotations

import os

import torch
import torch.utils.checkpoint

from .segments import Recompute, Segment


class AsksForEach(Segment):
    """torch.autograd.grad for inputs and parameters, added by hand: those of a segment inside are out of its reach."""

    def __init__(self, layers, keep_as=None):
        super().__init__(layers, keep_as)
        outer = self

        class ForEach(Recompute):
            @staticmethod
            def second_run(ctx, x, others):
                now = torch.get_rng_state()
                torch.set_rng_state(ctx.state)
                y = ctx.run(x, *others)
                torch.set_rng_state(now)
                return y

            @staticmethod
            def back(ctx, y, gradient, x, others):
                wanted = [w for w in (x, *others, *outer.parameters()) if isinstance(w, torch.Tensor) and w.requires_grad]
                found = dict(zip(map(id, wanted), torch.autograd.grad(y, wanted, gradient), strict=True))
                for parameter in outer.parameters():
                    if id(parameter) in found:
                        parameter.grad = found[id(parameter)] if parameter.grad is None else parameter.grad + found[id(parameter)]
                return found.get(id(x)), *(found.get(id(o)) for o in others)

        self.function = ForEach


class ForgetsTheParameters(Segment):
    class function(Recompute):
        @staticmethod
        def back(ctx, y, gradient, x, others):
            return torch.autograd.grad(y, x, gradient)[0], *(None for _ in others)


class ForgetsTheInput(Segment):
    class function(Recompute):
        @staticmethod
        def back(ctx, y, gradient, x, others):
            torch.autograd.backward(y, gradient)
            return None, *(None for _ in others)


class IgnoresTheGradient(Segment):
    class function(Recompute):
        @staticmethod
        def back(ctx, y, gradient, x, others):
            with torch.enable_grad():
                return Recompute.back(ctx, y.sum(), None, x, others)


class RunsAgainForTheParameters(Segment):
    """One more run, for the parameters' sake."""

    class function(Recompute):
        @staticmethod
        def back(ctx, y, gradient, x, others):
            with torch.enable_grad():
                once_more = ctx.own.second_run(ctx, x.detach(), others)
            torch.autograd.backward(once_more, gradient)
            return torch.autograd.grad(y, x, gradient)[0] if x.requires_grad else None, *(None for _ in others)


class AssignsGradients(Segment):
    """.grad = instead of adding."""

    class function(Recompute):
        @staticmethod
        def back(ctx, y, gradient, x, others):
            for layer in ctx.run.__self__.layers:
                layer.zero_grad()
            return Recompute.back(ctx, y, gradient, x, others)


class KeepsOnItself(Segment):
    """What belongs to a call is kept on the module, and fetched in the order in which it came."""

    def __init__(self, layers, keep_as=None):
        super().__init__(layers, keep_as)
        self.inputs = []

    def forward(self, x, *others):
        self.inputs.append(x.detach())
        return super().forward(x, *others)

    class function(Recompute):
        @classmethod
        def keep(cls, x, keep_as):
            return x.new_empty(0)

        @staticmethod
        def second_run(ctx, x, others):
            ctx.x = ctx.run.__self__.inputs.pop(0).requires_grad_(ctx.needs_input_grad[4])
            return Recompute.second_run(ctx, ctx.x, others)

        @staticmethod
        def back(ctx, y, gradient, x, others):
            return Recompute.back(ctx, y, gradient, ctx.x, others)


class KeepsForEver(Segment):
    def __init__(self, layers, keep_as=None):
        super().__init__(layers, keep_as)
        self.seen = []

    def forward(self, x, *others):
        self.seen.append(x.detach())
        return super().forward(x, *others)


class OnlyTensors(Segment):
    """Thinks that every further argument is a tensor that needs a gradient."""

    class function(Recompute):
        @staticmethod
        def back(ctx, y, gradient, x, others):
            torch.autograd.backward(y, gradient)
            return x.grad, *(o.grad for o in others)


class NoGradientForOthers(Segment):
    class function(Recompute):
        @staticmethod
        def back(ctx, y, gradient, x, others):
            return Recompute.back(ctx, y, gradient, x, others)[0], *(None for _ in others)


class NeedsAnInputGradient(Segment):
    """Works as long as the input needs a gradient."""

    def stand_in(self, x):
        return None


class AsksForFrozenOnes(Segment):
    """torch.autograd.grad for all parameters, the frozen, too."""

    class function(Recompute):
        @staticmethod
        def back(ctx, y, gradient, x, others):
            parameters = list(ctx.run.__self__.parameters())
            wanted = [w for w in (x, *others) if isinstance(w, torch.Tensor) and w.requires_grad]
            found = torch.autograd.grad(y, [*wanted, *parameters], gradient)
            for parameter, g in zip(parameters, found[len(wanted):], strict=True):
                parameter.grad = g if parameter.grad is None else parameter.grad + g
            grads = iter(found)
            return tuple(next(grads) if isinstance(w, torch.Tensor) and w.requires_grad else None for w in (x, *others))


class KeepsOneStateForAll(Segment):
    """Where the generator is to go back to is kept in a global, and put back at the end."""

    class function(Recompute):
        @staticmethod
        def second_run(ctx, x, others):
            Recompute.now = torch.get_rng_state()
            torch.set_rng_state(ctx.state)
            return ctx.run(x, *others)

        @staticmethod
        def back(ctx, y, gradient, x, others):
            found = Recompute.back(ctx, y, gradient, x, others)
            torch.set_rng_state(Recompute.now)
            return found


class RoundsTheFirstRun(Segment):
    def forward(self, x, *others):
        return super().forward(x if self.keep_as is None else x.to(self.keep_as).to(x.dtype), *others)


class KeepsAsItIs(Segment):
    class function(Recompute):
        @classmethod
        def keep(cls, x, keep_as):
            return x


class KeepsBoth(Segment):
    class function(Recompute):
        @staticmethod
        def first_run(ctx, run, x, others):
            ctx.x = x
            return run(x, *others)


class LeafInFewerBits(Segment):
    """The second run's leaf is the kept copy itself, so that the input's gradient is rounded, too."""

    class function(Recompute):
        @staticmethod
        def second_run(ctx, x, others):
            ctx.leaf = ctx.saved_tensors[0].detach().requires_grad_(ctx.needs_input_grad[4])
            return Recompute.second_run(ctx, ctx.leaf.to(ctx.dtype), others)

        @staticmethod
        def back(ctx, y, gradient, x, others):
            return Recompute.back(ctx, y, gradient, ctx.leaf, others)


class TorchsOwn(Segment):
    def forward(self, x, *others):
        return torch.utils.checkpoint.checkpoint(self.run, x, *others, use_reentrant=False)


class TorchsReentrant(Segment):
    def forward(self, x, *others):
        return torch.utils.checkpoint.checkpoint(self.run, x, *others, use_reentrant=True)


def the_courses_own(layers, keep_as=None):
    from lab_utils.train.recompute import checkpoint

    return lambda x, *others: checkpoint(lambda x: Segment(layers).run(x, *others), x)


class CutsTheGraph(Segment):
    def forward(self, x, *others):
        return super().forward(x, *others).detach()


class ForgetsALayer(Segment):
    def run(self, x, *others):
        for layer in self.layers[:-1]:
            x = layer(x, *others)
        return x


class ReturnsNothing(Segment):
    def forward(self, x, *others):
        super().forward(x, *others)


class ReturnsTheWrongShape(Segment):
    def forward(self, x, *others):
        return super().forward(x, *others)[0]


class EndsTheProcess(Segment):
    def forward(self, x, *others):
        os._exit(3)


def makes_nothing(layers, keep_as=None):
    return None


WRONG = [
    (ForgetsTheParameters, "gradient.parameters"), (ForgetsTheInput, "gradient.input"), (IgnoresTheGradient, "gradient.value"),
    (RunsAgainForTheParameters, "runs"), (AssignsGradients, "again"), (KeepsOnItself, "twice"), (KeepsForEver, "leak"), (OnlyTensors, "arguments"),
    (NoGradientForOthers, "arguments"), (NeedsAnInputGradient, "input-without-gradient"), (AsksForFrozenOnes, "frozen"), (KeepsOneStateForAll, "nested"),
    (AsksForEach, "nested"), (RoundsTheFirstRun, "keep-as"), (KeepsAsItIs, "keep-as"), (KeepsBoth, "keep-as"), (LeafInFewerBits, "keep-as"),
    (TorchsOwn, "from-scratch"), (TorchsReentrant, "from-scratch"), (the_courses_own, "from-scratch"), (CutsTheGraph, "no-graph"), (ForgetsALayer, "output"),
    (ReturnsNothing, "output"), (ReturnsTheWrongShape, "output"), (EndsTheProcess, "raised"), (makes_nothing, "raised"),
]  # fmt: skip
