"""Wrong answers to lab 03, exercise 2: what they keep, and what they do to the random numbers."""

from __future__ import annotations

import torch
import torch.utils.checkpoint

from .segments import Recompute, Segment


class NoCheckpoint(Segment):
    """Just runs the layers."""

    def forward(self, x, *others):
        return self.run(x, *others)


class KeepsTheGraph(Segment):
    """The first run with a graph, which is kept."""

    class function(Recompute):
        @staticmethod
        def first_run(ctx, run, x, others):
            with torch.enable_grad():
                ctx.graph = run(x.detach().requires_grad_(), *others)
            return ctx.graph.detach()


class WithoutNoGrad(Segment):
    """Runs outside of any Function and without no_grad, then hooks a second run onto it."""

    def forward(self, x, *others):
        first = self.run(x, *others)
        again = self.function.apply(self.function, self.run, self.keep_as, self.stand_in(x), x, *others)
        return again + 0 * first


class GoesBackThroughTheFirst(Segment):
    """Keeps the graph of the first run and never runs again."""

    class function(Recompute):
        @staticmethod
        def first_run(ctx, run, x, others):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = run(ctx.x, *others)
            return ctx.y.detach()

        @staticmethod
        def back(ctx, y, gradient, x, others):
            torch.autograd.backward(ctx.y, gradient)
            return ctx.x.grad, *(None for _ in others)


class KeepsItsOutput(Segment):
    """ctx holds the output, the output its node, the node ctx: the memory goes when the garbage collector happens to run."""

    class function(Recompute):
        @staticmethod
        def first_run(ctx, run, x, others):
            ctx.y = run(x, *others)
            return ctx.y


class BuildsNoGraph(Segment):
    class function(Recompute):
        @staticmethod
        def second_run(ctx, x, others):
            with torch.no_grad():
                return Recompute.second_run(ctx, x, others)


class KeepsEachLayersInput(Segment):
    """As many small segments: less than everything, and more than the input."""

    def forward(self, x, *others):
        for layer in self.layers:
            x = self.function.apply(self.function, layer, self.keep_as, self.stand_in(x), x, *others)
        return x


class NoReplay(Segment):
    """The generator is not touched: the second run drops other elements."""

    class function(Recompute):
        @staticmethod
        def second_run(ctx, x, others):
            with torch.random.fork_rng():
                return ctx.run(x, *others)


class StateFromAfterTheRun(Segment):
    class function(Recompute):
        @staticmethod
        def first_run(ctx, run, x, others):
            y = run(x, *others)
            ctx.state = torch.get_rng_state()
            return y


class SeedsAgain(Segment):
    """The seed of the program, in the place of the state at the time."""

    class function(Recompute):
        @staticmethod
        def second_run(ctx, x, others):
            with torch.random.fork_rng():
                torch.manual_seed(torch.initial_seed())
                return ctx.run(x, *others)


class LeavesItRewound(Segment):
    class function(Recompute):
        @staticmethod
        def second_run(ctx, x, others):
            torch.set_rng_state(ctx.state)
            return ctx.run(x, *others)


class GoesBackToTheEndOfForward(Segment):
    class function(Recompute):
        @staticmethod
        def first_run(ctx, run, x, others):
            y = run(x, *others)
            ctx.after = torch.get_rng_state()
            return y

        @staticmethod
        def second_run(ctx, x, others):
            torch.set_rng_state(ctx.state)
            y = ctx.run(x, *others)
            torch.set_rng_state(ctx.after)
            return y


class SeedsBothRuns(Segment):
    class function(Recompute):
        @staticmethod
        def first_run(ctx, run, x, others):
            torch.manual_seed(0)
            ctx.state = torch.get_rng_state()
            return run(x, *others)


class RestoresAfterTheFirstRun(Segment):
    """Puts the generator back after the first run, so that the next segment draws the same numbers."""

    class function(Recompute):
        @staticmethod
        def first_run(ctx, run, x, others):
            y = run(x, *others)
            torch.set_rng_state(ctx.state)
            return y


WRONG = [
    (NoCheckpoint, "saved"), (KeepsTheGraph, "saved"), (WithoutNoGrad, "saved"), (GoesBackThroughTheFirst, "saved"), (KeepsEachLayersInput, "saved"),
    (NoReplay, "rng.second-run"), (StateFromAfterTheRun, "rng.second-run"), (SeedsAgain, "rng.second-run"), (LeavesItRewound, "rng.left"),
    (GoesBackToTheEndOfForward, "rng.left"), (SeedsBothRuns, "rng.first-run"), (RestoresAfterTheFirstRun, "rng.first-run"), (KeepsItsOutput, "leak"),
    (BuildsNoGraph, "graph.second-run"),
]  # fmt: skip
