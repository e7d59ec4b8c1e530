"""Answers to lab 03 that must fail, each with the criterion that it must fail on, and different right ones that must pass.

Every answer stands alone, as a learner would write it.
"""

from __future__ import annotations

import math
import os

import torch
import torch.utils.checkpoint
from torch import nn

IGNORED = -100


# ---------------------------------------------------------------- exercise 1
def accumulate(model, optimizer, micro_batches, group):
    """The lab's own frame, completed."""
    losses, loss_so_far, tokens = [], 0.0, 0
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        loss_sum, count = model(inputs, targets)
        loss_sum.backward()
        loss_so_far, tokens = loss_so_far + loss_sum.item(), tokens + count.item()
        if number % group == 0 or number == len(micro_batches):
            for parameter in model.parameters():
                parameter.grad /= tokens
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss_so_far / tokens)
            loss_so_far, tokens = 0.0, 0
    return losses


def groups_of(micro_batches, group):
    return [micro_batches[i : i + group] for i in range(0, len(micro_batches), group)]


def accumulate_looks_ahead(model, optimizer, micro_batches, group):
    """Counts the group's tokens before its first forward pass, as the course's engine does."""
    losses = []
    for members in groups_of(micro_batches, group):
        optimizer.zero_grad(set_to_none=False)
        tokens, total = sum((targets != IGNORED).sum() for _, targets in members), torch.zeros(())
        for inputs, targets in members:
            loss = model(inputs, targets)[0] / tokens
            loss.backward()
            total += loss.detach()
        optimizer.step()
        losses.append(total)
    return losses


def accumulate_weights_means(model, optimizer, micro_batches, group):
    """Each micro-batch's mean, weighted by its share of the group's tokens; those without any are left out of the division."""
    losses = []
    for members in groups_of(micro_batches, group):
        counts = [int((targets != IGNORED).sum()) for _, targets in members]
        shares = [count / sum(counts) for count in counts]
        loss_of_group = 0.0
        for (inputs, targets), share, count in zip(members, shares, counts, strict=True):
            loss_sum, _ = model(inputs, targets)
            weighted = share * loss_sum / max(count, 1)
            weighted.backward()
            loss_of_group += weighted.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss_of_group)
    return losses


def accumulate_in_buffers(model, optimizer, micro_batches, group):
    """Gradients are added up outside of .grad, which costs their size once more."""
    losses, parameters = [], list(model.parameters())
    for members in groups_of(micro_batches, group):
        sums, total, tokens = [torch.zeros_like(p) for p in parameters], 0.0, 0
        for inputs, targets in members:
            loss_sum, count = model(inputs, targets)
            for buffer, gradient in zip(sums, torch.autograd.grad(loss_sum, parameters), strict=True):
                buffer += gradient
            total, tokens = total + loss_sum.item(), tokens + count.item()
        for parameter, buffer in zip(parameters, sums, strict=True):
            parameter.grad = buffer.div_(tokens)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total / tokens)
    return losses


def means_of_means(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        total = 0.0
        for inputs, targets in members:
            loss_sum, count = model(inputs, targets)
            loss = loss_sum / count / len(members)
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def means_of_means_by_group(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        total = 0.0
        for inputs, targets in members:
            loss_sum, count = model(inputs, targets)
            (loss_sum / count / group).backward()
            total += (loss_sum / count / group).item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def weighted_but_divides_by_zero(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        counts = [(targets != IGNORED).sum() for _, targets in members]
        total = 0.0
        for (inputs, targets), count in zip(members, counts, strict=True):
            weighted = count / sum(counts) * (model(inputs, targets)[0] / count)
            weighted.backward()
            total += weighted.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def drops_the_last_group(model, optimizer, micro_batches, group):
    return accumulate(model, optimizer, micro_batches[: len(micro_batches) // group * group], group)


def steps_only_when_full(model, optimizer, micro_batches, group):
    """The last partial group is computed, and never steps."""
    losses, loss_so_far, tokens = [], 0.0, 0
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        loss_sum, count = model(inputs, targets)
        loss_sum.backward()
        loss_so_far, tokens = loss_so_far + loss_sum.item(), tokens + count.item()
        if number % group == 0:
            for parameter in model.parameters():
                parameter.grad /= tokens
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss_so_far / tokens)
            loss_so_far, tokens = 0.0, 0
    return losses


def steps_every_time(model, optimizer, micro_batches, group):
    return accumulate(model, optimizer, micro_batches, 1)


def one_step_for_all(model, optimizer, micro_batches, group):
    return accumulate(model, optimizer, micro_batches, len(micro_batches))


def without_zero_grad(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        tokens, total = sum((targets != IGNORED).sum() for _, targets in members), 0.0
        for inputs, targets in members:
            loss = model(inputs, targets)[0] / tokens
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


def without_zero_grad_divides_again(model, optimizer, micro_batches, group):
    """The frame without its zero_grad: what is left is divided by the next group's tokens, too."""
    keep, optimizer.zero_grad = optimizer.zero_grad, lambda: None
    try:
        return accumulate(model, optimizer, micro_batches, group)
    finally:
        optimizer.zero_grad = keep


def zero_grad_between(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        tokens, total = sum((targets != IGNORED).sum() for _, targets in members), 0.0
        for inputs, targets in members:
            optimizer.zero_grad()
            loss = model(inputs, targets)[0] / tokens
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


def zero_grad_before_the_step(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        tokens, total = sum((targets != IGNORED).sum() for _, targets in members), 0.0
        for inputs, targets in members:
            loss = model(inputs, targets)[0] / tokens
            loss.backward()
            total += loss.item()
        optimizer.zero_grad()
        optimizer.step()
        losses.append(total)
    return losses


def never_divides(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        total, tokens = 0.0, 0
        for inputs, targets in members:
            loss_sum, count = model(inputs, targets)
            loss_sum.backward()
            total, tokens = total + loss_sum.item(), tokens + count.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total / tokens)
    return losses


def divides_by_the_running_count(model, optimizer, micro_batches, group):
    """Divides by all tokens since the beginning of training."""
    losses, seen = [], 0
    for members in groups_of(micro_batches, group):
        total, tokens = 0.0, 0
        for inputs, targets in members:
            loss_sum, count = model(inputs, targets)
            loss_sum.backward()
            total, tokens, seen = total + loss_sum.item(), tokens + count.item(), seen + count.item()
        for parameter in model.parameters():
            parameter.grad /= seen
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total / tokens)
    return losses


def counts_the_ignored(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        total, positions = 0.0, sum(targets.numel() for _, targets in members)
        for inputs, targets in members:
            loss = model(inputs, targets)[0] / positions
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def one_big_batch(model, optimizer, micro_batches, group):
    """Right numbers, and the memory that accumulation is there to save."""
    return accumulate(model, optimizer, [tuple(map(torch.cat, zip(*members, strict=True))) for members in groups_of(micro_batches, group)], 1)


def one_backward_for_the_group(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        total, tokens = zip(*[model(*micro_batch) for micro_batch in members], strict=True)
        loss = sum(total) / sum(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def retains_the_graphs(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        tokens = sum((targets != IGNORED).sum() for _, targets in members)
        kept = []
        for inputs, targets in members:
            kept.append(model(inputs, targets)[0] / tokens)
            kept[-1].backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sum(kept).item())
    return losses


def runs_twice_to_count(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        with torch.no_grad():
            tokens = sum(model(*micro_batch)[1] for micro_batch in members)
        total = 0.0
        for micro_batch in members:
            loss = model(*micro_batch)[0] / tokens
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def returns_the_last_losses(model, optimizer, micro_batches, group):
    accumulate(model, optimizer, micro_batches, group)
    return [0.0] * math.ceil(len(micro_batches) / group)


def returns_nothing(model, optimizer, micro_batches, group):
    accumulate(model, optimizer, micro_batches, group)


def divides_a_partial_group_by_the_full_one(model, optimizer, micro_batches, group):
    """Assumes that a group is full when there is only one."""
    if len(micro_batches) < group:
        return [loss / 2 for loss in accumulate(model, optimizer, micro_batches, group)]
    return accumulate(model, optimizer, micro_batches, group)


def does_nothing(model, optimizer, micro_batches, group):
    return []


def indexes_past_the_end(model, optimizer, micro_batches, group):
    for number in range(len(micro_batches) + 1):
        model(*micro_batches[number])


def loops_for_ever(model, optimizer, micro_batches, group):
    while True:
        pass


# ---------------------------------------------------------------- exercise 2
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


# ---------------------------------------------------------------- exercise 3
def every_plan(begin, n):
    if begin == n:
        yield []
        return
    yield from every_plan(begin + 1, n)
    for end in range(begin + 1, n + 1):
        yield from ([(begin, end), *rest] for rest in every_plan(end, n))


def peak(layers, plan):
    ends, at, held, most = dict(plan), 0, 0, 0
    while at < len(layers):
        end = ends.get(at, at + 1)
        whole = sum(layer.saved_bytes for layer in layers[at:end])
        most = max(most, held + whole)
        held += layers[at].input_bytes if at in ends else whole
        at = end
    return most


def work(layers, plan):
    return sum(layer.flops for begin, end in plan for layer in layers[begin:end])


def best_by(measure, layers, budget, cost=work):
    fitting = [plan for plan in every_plan(0, len(layers)) if measure(layers, plan) <= budget]
    return min(fitting, key=lambda plan: cost(layers, plan), default=None)


def plan_by_trying_all(layers, budget):
    return best_by(peak, layers, budget)


def plan_by_a_frontier(layers, budget):
    """Front to back: of the ways to come to a layer, those are kept that no other beats in both bytes held and work."""
    ways = [[] for _ in range(len(layers) + 1)]
    ways[0] = [(0, 0, [])]
    for at, layer in enumerate(layers):
        undominated, least = [], None
        for held, flops, plan in sorted(ways[at], key=lambda way: way[:2]):
            if least is None or flops < least:
                undominated.append((held, flops, plan))
                least = flops
        for held, flops, plan in undominated:
            if held + layer.saved_bytes <= budget:
                ways[at + 1].append((held + layer.saved_bytes, flops, plan))
            for end in range(at + 1, len(layers) + 1):
                if held + sum(x.saved_bytes for x in layers[at:end]) > budget:
                    break
                ways[end].append((held + layer.input_bytes, flops + sum(x.flops for x in layers[at:end]), [*plan, (at, end)]))
    return min(ways[-1], key=lambda way: way[1])[2] if ways[-1] else None


def plan_by_recursion(layers, budget):
    """Depth first, giving up a branch as soon as it is over the budget or costs more than the best so far; tuples of tuples."""
    best = [float("inf"), None]

    def go(at, held, flops, plan):
        if held > budget or flops >= best[0]:
            return
        if at == len(layers):
            best[:] = flops, plan
            return
        go(at + 1, held + layers[at].saved_bytes, flops, plan)
        whole = more = 0
        for end in range(at, len(layers)):
            whole, more = whole + layers[end].saved_bytes, more + layers[end].flops
            if held + whole <= budget:
                go(end + 1, held + layers[at].input_bytes, flops + more, (*plan, (at, end + 1)))

    go(0, 0, 0, ())
    return best[1]


def one_segment(layers, budget):
    return [(0, len(layers))]


def keep_everything(layers, budget):
    return []


def each_by_itself(layers, budget):
    return [(i, i + 1) for i in range(len(layers))]


def square_root(layers, budget):
    size = math.isqrt(len(layers))
    return [(i, min(i + size, len(layers))) for i in range(0, len(layers), size)]


def end_of_forward(layers, plan):
    ends, at, held = dict(plan), 0, 0
    while at < len(layers):
        held += layers[at].input_bytes if at in ends else layers[at].saved_bytes
        at = ends.get(at, at + 1)
    return held


def only_the_end_of_forward(layers, budget):
    """Counts what is kept when forward is over, and forgets that it all comes back."""
    return best_by(end_of_forward, layers, budget)


def forgets_what_is_held_before(layers, budget):
    """The second run of a segment, as if nothing else were there."""
    def alone(layers, plan):
        return max(end_of_forward(layers, plan), *(sum(x.saved_bytes for x in layers[a:b]) for a, b in [*plan, (0, 0)]))

    return best_by(alone, layers, budget)


def forgets_the_inputs(layers, budget):
    """As if a segment kept nothing at all."""
    return best_by(lambda layers, plan: peak([x._replace(input_bytes=0) for x in layers], plan), layers, budget)


def counts_inputs_twice(layers, budget):
    """While a segment runs again, its input is counted, and once more in what its layers save."""
    def too_much(layers, plan):
        return max(peak(layers, plan), *(end_of_forward(layers, [*plan[:i], (a, b)]) - sum(x.saved_bytes for x in layers[b:])
                                         + sum(x.saved_bytes for x in layers[a:b]) for i, (a, b) in enumerate(plan)), 0)

    return best_by(too_much, layers, budget)


def fewest_layers(layers, budget):
    return best_by(peak, layers, budget, lambda layers, plan: sum(end - begin for begin, end in plan))


def fewest_segments(layers, budget):
    return best_by(peak, layers, budget, lambda layers, plan: len(plan))


def smallest_peak(layers, budget):
    return min(every_plan(0, len(layers)), key=lambda plan: peak(layers, plan))


def largest_first(layers, budget):
    """Greedy: recompute the layers that save most, one by one, until it fits."""
    plan = []
    for _, i in sorted((layer.input_bytes - layer.saved_bytes, i) for i, layer in enumerate(layers)):
        if peak(layers, plan) <= budget:
            break
        plan = sorted([*plan, (i, i + 1)])
    return plan


def cheapest_first(layers, budget):
    plan = []
    for i in sorted(range(len(layers)), key=lambda i: layers[i].flops / (layers[i].saved_bytes - layers[i].input_bytes)):
        if peak(layers, plan) <= budget:
            break
        plan = sorted([*plan, (i, i + 1)])
    return plan


def strictly_below(layers, budget):
    """Takes exactly the budget for too much."""
    return plan_by_trying_all(layers, budget - 1)


def always_something(layers, budget):
    """Never returns []."""
    fitting = [plan for plan in every_plan(0, len(layers)) if plan and peak(layers, plan) <= budget]
    return min(fitting, key=lambda plan: work(layers, plan), default=None)


def the_least_bad(layers, budget):
    return plan_by_trying_all(layers, budget) or (smallest_peak(layers, budget) if sum(x.saved_bytes for x in layers) > budget else [])


def raises_when_nothing_fits(layers, budget):
    plan = plan_by_trying_all(layers, budget)
    if plan is None:
        raise ValueError("nothing fits")
    return plan


def gives_up(layers, budget):
    return None


def layer_numbers(layers, budget):
    return [i for begin, end in plan_by_trying_all(layers, budget) or [] for i in range(begin, end)]


def ends_included(layers, budget):
    return [(begin, end - 1) for begin, end in plan_by_trying_all(layers, budget) or []]


def overlapping(layers, budget):
    return [(0, 3), (2, 5)]


def beyond_the_last(layers, budget):
    return [(0, len(layers) + 1)]


def as_a_tensor(layers, budget):
    return torch.tensor(plan_by_trying_all(layers, budget))


def takes_layers_for_dicts(layers, budget):
    return [(0, 1)] if layers[0]["saved_bytes"] > budget else []


def searches_for_ever(layers, budget):
    while peak(layers, []) > 0:
        pass


RIGHT = {
    "accumulate": [accumulate, accumulate_looks_ahead, accumulate_weights_means, accumulate_in_buffers],
    "checkpoint": [Segment, SegmentByHooks, segment_function],
    "plan_checkpoints": [plan_by_trying_all, plan_by_a_frontier, plan_by_recursion],
}
WRONG = {
    "accumulate": [
        (means_of_means, "gradient.mean-of-means"), (means_of_means_by_group, "gradient.mean-of-means"), (weighted_but_divides_by_zero, "empty"),
        (drops_the_last_group, "steps.last-group"), (steps_only_when_full, "steps.last-group"), (steps_every_time, "steps.every"),
        (one_step_for_all, "steps"), (does_nothing, "steps"), (without_zero_grad, "gradient.left-over"),
        (without_zero_grad_divides_again, "gradient.left-over"), (zero_grad_between, "gradient.last-only"),
        (zero_grad_before_the_step, "gradient.missing"), (never_divides, "gradient.scale"),
        (divides_by_the_running_count, "gradient.scale"), (counts_the_ignored, "gradient.ignored-counted"), (one_big_batch, "passes"),
        (one_backward_for_the_group, "memory"), (retains_the_graphs, "memory"), (runs_twice_to_count, "passes"), (returns_the_last_losses, "losses"),
        (returns_nothing, "losses"), (divides_a_partial_group_by_the_full_one, "any-group"), (indexes_past_the_end, "raised"), (loops_for_ever, "hung"),
    ],
    "checkpoint": [
        (NoCheckpoint, "saved"), (KeepsTheGraph, "saved"), (WithoutNoGrad, "saved"), (GoesBackThroughTheFirst, "saved"), (KeepsEachLayersInput, "saved"),
        (NoReplay, "rng.second-run"), (StateFromAfterTheRun, "rng.second-run"), (SeedsAgain, "rng.second-run"), (LeavesItRewound, "rng.left"),
        (GoesBackToTheEndOfForward, "rng.left"), (SeedsBothRuns, "rng.first-run"), (RestoresAfterTheFirstRun, "rng.first-run"),
        (ForgetsTheParameters, "gradient.parameters"), (ForgetsTheInput, "gradient.input"), (IgnoresTheGradient, "gradient.value"),
        (RunsAgainForTheParameters, "runs"), (AssignsGradients, "again"), (KeepsOnItself, "twice"), (KeepsForEver, "leak"), (OnlyTensors, "arguments"),
        (NoGradientForOthers, "arguments"), (NeedsAnInputGradient, "input-without-gradient"), (AsksForFrozenOnes, "frozen"),
        (KeepsOneStateForAll, "nested"), (AsksForEach, "nested"), (RoundsTheFirstRun, "keep-as"), (KeepsAsItIs, "keep-as"), (KeepsBoth, "keep-as"),
        (LeafInFewerBits, "keep-as"), (TorchsOwn, "from-scratch"), (TorchsReentrant, "from-scratch"), (the_courses_own, "from-scratch"),
        (CutsTheGraph, "no-graph"), (ForgetsALayer, "output"), (ReturnsNothing, "output"), (ReturnsTheWrongShape, "output"), (EndsTheProcess, "raised"),
        (makes_nothing, "raised"),
    ],
    "plan_checkpoints": [
        (one_segment, "peak.backward"), (keep_everything, "peak.forward"), (each_by_itself, "flops"), (square_root, "flops"),
        (only_the_end_of_forward, "peak.backward"), (forgets_what_is_held_before, "peak.backward"), (forgets_the_inputs, "peak.forward"),
        (fewest_layers, "flops"), (fewest_segments, "flops"), (smallest_peak, "flops"), (largest_first, "flops"), (cheapest_first, "flops"),
        (strictly_below, "gave-up"), (always_something, "no-need"), (the_least_bad, "nothing-fits"), (raises_when_nothing_fits, "nothing-fits"),
        (gives_up, "gave-up"), (counts_inputs_twice, "flops"), (layer_numbers, "plan.form"), (ends_included, "plan.form"), (overlapping, "plan.form"),
        (beyond_the_last, "plan.form"), (as_a_tensor, "plan.form"), (takes_layers_for_dicts, "raised"), (searches_for_ever, "hung"),
    ],
}  # fmt: skip
