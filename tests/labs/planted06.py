"""Answers to lab 06 that must fail, each with the criterion that it must fail on, and different right ones that must pass.

Every answer stands alone, as a learner would write it.
"""

from __future__ import annotations

import os
import signal
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn


def flatten(parameters, n):
    """The one that the lab gives."""
    numel = sum(p.numel() for p in parameters)
    flat = parameters[0].data.new_zeros(numel + -numel % n)
    begin = 0
    for p in parameters:
        place = flat[begin : begin + p.numel()].view_as(p)
        place.copy_(p.data)
        p.data = place
        begin += p.numel()
    return flat


# ---------------------------------------------------------------- exercise 1
class Zero1:
    """The lab's own frame, completed; wrong answers change one of its methods."""

    def __init__(self, model, axis, make_optimizer):
        self.model, self.axis, self.parameters = model, axis, list(model.parameters())
        self.flat = flatten(self.parameters, axis.size)
        self.mine = self.part_of(self.flat)
        self.optimizer = self.first_optimizer(make_optimizer)

    def part_of(self, whole):
        return whole.chunk(self.axis.size)[self.axis.rank]

    def first_optimizer(self, make_optimizer):
        return make_optimizer([self.mine])

    def whole_gradient(self):
        gradient = torch.cat([p.grad.flatten() for p in self.parameters])
        return F.pad(gradient, (0, len(self.flat) - len(gradient)))

    def summed(self):
        mine, pending = self.axis.reduce_scatter(self.whole_gradient(), purpose="gradient")
        pending.wait()
        return mine

    def mean(self):
        return self.summed() / self.axis.size

    def gather(self):
        self.axis.all_gather(self.flat, purpose="parameter").wait()

    def step(self):
        self.mine.grad = self.mean()
        self.optimizer.step()
        self.gather()


class Zero1OfParameters:
    """No flat buffer: a shard of each parameter, as FSDP2 cuts; a copy of its weights beside the model's own."""

    def __init__(self, model, axis, make_optimizer):
        self.axis, self.parameters = axis, list(model.parameters())
        self.shards = [nn.Parameter(self.cut(p.data).clone()) for p in self.parameters]
        self.optimizer = make_optimizer(self.shards)

    def cut(self, whole):
        return F.pad(whole.flatten(), (0, -whole.numel() % self.axis.size)).chunk(self.axis.size)[self.axis.rank]

    def step(self):
        for p, shard in zip(self.parameters, self.shards, strict=True):
            whole = F.pad(p.grad.flatten() / self.axis.size, (0, -p.numel() % self.axis.size))
            shard.grad, pending = self.axis.reduce_scatter(whole, purpose="gradient")
            pending.wait()
        self.optimizer.step()
        for p, shard in zip(self.parameters, self.shards, strict=True):
            whole = torch.zeros(shard.numel() * self.axis.size, dtype=p.dtype)
            whole.chunk(self.axis.size)[self.axis.rank].copy_(shard.data)
            self.axis.all_gather(whole, purpose="parameter").wait()
            p.data.copy_(whole[: p.numel()].view_as(p))


class Zero1WithMasterWeights(Zero1):
    """The optimizer's weights are a tensor of their own; the mean is taken before the sum."""

    def first_optimizer(self, make_optimizer):
        self.master = nn.Parameter(self.mine.clone())
        return make_optimizer([self.master])

    def whole_gradient(self):
        return super().whole_gradient() / self.axis.size

    def step(self):
        self.master.grad = self.summed()
        self.optimizer.step()
        self.mine.copy_(self.master.data)
        self.gather()


class Zero1Unsharded:
    """Data parallelism with a new name: right numbers, and every rank holds all states."""

    def __init__(self, model, axis, make_optimizer):
        self.axis, self.parameters = axis, list(model.parameters())
        self.optimizer = make_optimizer(self.parameters)

    def step(self):
        for p in self.parameters:
            self.axis.all_reduce(p.grad, purpose="gradient").wait()
            p.grad /= self.axis.size
        self.optimizer.step()


class Zero1CutsTheStates(Zero1):
    """All states are made, and cut afterwards."""

    copied = True

    def first_optimizer(self, make_optimizer):
        before, whole = self.flat.clone(), nn.Parameter(self.flat)
        optimizer = make_optimizer([whole])
        whole.grad = torch.zeros_like(self.flat)
        optimizer.step()
        self.flat.copy_(before)
        torch.ones(1)
        states = optimizer.state.pop(whole)
        small = make_optimizer([self.mine])
        small.state[self.mine] = {name: self.keep(x) if x.dim() else x * 0 for name, x in states.items()}
        return small

    def keep(self, state):
        return self.part_of(state).clone()


class Zero1LooksAtTheStates(Zero1CutsTheStates):
    """The kept states are slices of the whole ones."""

    def keep(self, state):
        return self.part_of(state)


class Zero1NeverGathers(Zero1):
    def gather(self):
        pass


class Zero1NeverWaits(Zero1):
    def gather(self):
        self.axis.all_gather(self.flat, purpose="parameter")


class Zero1NeverWaitsForTheSum(Zero1):
    def summed(self):
        return self.axis.reduce_scatter(self.whole_gradient(), purpose="gradient")[0]


class Zero1Sums(Zero1):
    def mean(self):
        return self.summed()


class Zero1DividesTwice(Zero1):
    def mean(self):
        return self.summed() / self.axis.size**2


class Zero1LearnsAlone(Zero1):
    def summed(self):
        return self.part_of(self.whole_gradient()) * self.axis.size


class Zero1ReducesAll(Zero1):
    def summed(self):
        whole = self.whole_gradient()
        self.axis.all_reduce(whole, purpose="gradient").wait()
        return self.part_of(whole).clone()


class Zero1DropsTheRest(Zero1):
    """The buffer is cut down, not padded, to a multiple of N: the last elements never learn."""

    def __init__(self, model, axis, make_optimizer):
        super().__init__(model, axis, make_optimizer)
        self.mine = self.part_of(self.whole())
        self.optimizer = make_optimizer([self.mine])

    def whole(self):
        numel = sum(p.numel() for p in self.parameters)
        return self.flat[: numel - numel % self.axis.size]

    def whole_gradient(self):
        return super().whole_gradient()[: len(self.whole())].clone()

    def gather(self):
        self.axis.all_gather(self.whole(), purpose="parameter").wait()


class Zero1ShiftsTheRest(Zero1):
    """Gradients are padded in front, weights at the end."""

    def whole_gradient(self):
        gradient = torch.cat([p.grad.flatten() for p in self.parameters])
        return F.pad(gradient, (len(self.flat) - len(gradient), 0))


class Zero1NeverPads(Zero1):
    def whole_gradient(self):
        return torch.cat([p.grad.flatten() for p in self.parameters])


class Zero1LastRankTakesTheRest(Zero1):
    """The last rank forgets the elements that are left over in the gather, from step to step more."""

    def gather(self):
        numel = sum(p.numel() for p in self.parameters)
        self.axis.all_gather(self.flat[: numel - numel % self.axis.size], purpose="parameter").wait()


class Zero1ForgetsMomentum(Zero1):
    """A new optimizer in every step: right once."""

    def first_optimizer(self, make_optimizer):
        self.make_optimizer = make_optimizer
        return make_optimizer([self.mine])

    def step(self):
        super().step()
        self.optimizer = self.make_optimizer([self.mine])


class Zero1ForFour(Zero1):
    def mean(self):
        return self.summed() / 4


class Zero1OneRankSkips(Zero1):
    def gather(self):
        if self.axis.rank:
            super().gather()


class Zero1AroundTheAxis(Zero1):
    def summed(self):
        whole = self.whole_gradient()
        torch.distributed.all_reduce(whole, group=self.axis.group)
        return self.part_of(whole).clone()


class Zero1Empties(Zero1):
    """Takes the others' parts for its own to free."""

    def step(self):
        super().step()
        self.flat.untyped_storage().resize_(0)


class Zero1Raises(Zero1):
    def mean(self):
        raise KeyError("shard")


# ---------------------------------------------------------------- exercise 2
def padded(tensor, n):
    """The one that the lab gives."""
    return F.pad(tensor.flatten(), (0, -tensor.numel() % n)).clone()


class Zero2:
    """The lab's own frame, completed; wrong answers change one of its methods."""

    def __init__(self, model, axis, make_optimizer):
        self.axis, self.shards = axis, {}
        for p in model.parameters():
            self.shards[p] = nn.Parameter(self.part_of(padded(p.data, axis.size)).clone())
            p.register_post_accumulate_grad_hook(self.gradient_exists)
        self.optimizer = make_optimizer(list(self.shards.values()))

    def part_of(self, whole):
        return whole.chunk(self.axis.size)[self.axis.rank]

    def summed(self, gradient):
        mine, pending = self.axis.reduce_scatter(padded(gradient, self.axis.size), purpose="gradient")
        pending.wait()
        return mine

    def mean(self, gradient):
        return self.summed(gradient) / self.axis.size

    def gradient_exists(self, p):
        self.shards[p].grad = self.mean(p.grad)
        p.grad = None

    def squares(self):
        return sum(shard.grad.square().sum() for shard in self.shards.values())

    def gradient_norm(self):
        total = self.squares()
        self.axis.all_reduce(total, purpose="control").wait()
        return total.sqrt()

    def finite(self, norm):
        return norm.isfinite()

    def step(self, max_norm):
        norm = self.gradient_norm()
        if self.finite(norm):
            for shard in self.shards.values():
                shard.grad *= min(1.0, max_norm / norm.item())
            self.optimizer.step()
            self.publish()
        self.optimizer.zero_grad()
        return norm

    def publish(self):
        for p, shard in self.shards.items():
            whole = padded(p.data, self.axis.size)
            self.part_of(whole).copy_(shard.data)
            self.axis.all_gather(whole, purpose="parameter").wait()
            p.data.copy_(whole[: p.numel()].view_as(p))


class Zero2OneBehind(Zero2):
    """Each sum is waited for when the next gradient comes, the last in `step`; the norm is a float, clipped as torch does."""

    under_way = None

    def gradient_exists(self, p):
        self.arrive()
        mine, pending = self.axis.reduce_scatter(padded(p.grad, self.axis.size), purpose="gradient")
        self.under_way, p.grad = (p, mine, pending), None

    def arrive(self):
        if self.under_way:
            p, mine, pending = self.under_way
            pending.wait()
            self.shards[p].grad, self.under_way = mine / self.axis.size, None

    def step(self, max_norm):
        self.arrive()
        squares = torch.tensor(sum(torch.linalg.vector_norm(shard.grad).item() ** 2 for shard in self.shards.values()), dtype=torch.float64)
        self.axis.all_reduce(squares, purpose="control").wait()
        norm = squares.item() ** 0.5
        if norm < float("inf"):
            for shard in self.shards.values():
                shard.grad.mul_(min(1.0, max_norm / (norm + 1e-6)))
            self.optimizer.step()
            self.publish()
        return norm


class Zero2OfBlocks:
    """A flat buffer for each block, as the lesson's units: reduced when the block's last gradient has come."""

    def __init__(self, model, axis, make_optimizer):
        self.axis, self.units, self.shards = axis, [], []
        for block in model.blocks:
            parameters = list(block.parameters())
            flat = flatten(parameters, axis.size)
            self.units.append((flat, flat.chunk(axis.size)[axis.rank]))
            missing = set(parameters)
            for p in parameters:
                p.register_post_accumulate_grad_hook(partial(self.came, unit=self.units[-1], parameters=parameters, missing=missing))
        self.optimizer = make_optimizer([mine for _, mine in self.units])

    def came(self, p, unit, parameters, missing):
        missing.discard(p)
        if not missing:
            missing.update(parameters)
            flat, mine = unit
            whole = torch.zeros_like(flat)
            begin = 0
            for q in parameters:
                whole[begin : begin + q.numel()] = q.grad.flatten() / self.axis.size
                begin, q.grad = begin + q.numel(), None
            summed, pending = self.axis.reduce_scatter(whole, purpose="gradient")
            pending.wait()
            mine.grad = summed.clone()

    def step(self, max_norm):
        norms = torch.stack([mine.grad.norm() for _, mine in self.units]).square().sum().view(1)
        self.axis.all_reduce(norms, purpose="control").wait()
        norm = norms.item() ** 0.5
        if norm == norm and norm != float("inf"):
            if norm > max_norm:
                for _, mine in self.units:
                    mine.grad *= max_norm / norm
            self.optimizer.step()
            for flat, _ in self.units:
                self.axis.all_gather(flat, purpose="parameter").wait()
        return norm


class Zero2KeepsGradients(Zero2):
    def gradient_exists(self, p):
        self.shards[p].grad = self.mean(p.grad)

    def step(self, max_norm):
        norm = super().step(max_norm)
        for p in self.shards:
            p.grad = None
        return norm


class Zero2ReducesInStep(Zero2KeepsGradients):
    """ZeRO-1: every gradient is kept until the step."""

    def gradient_exists(self, p):
        pass

    def step(self, max_norm):
        for p in self.shards:
            super().gradient_exists(p)
        return super().step(max_norm)


class Zero2KeepsAView(Zero2):
    def mean(self, gradient):
        return self.summed(gradient).div_(self.axis.size)


class Zero2HoldsTheBuffers(Zero2):
    """.grad is gone, but the padded copies stay in a list until the step."""

    def summed(self, gradient):
        self.buffers = [*getattr(self, "buffers", []), padded(gradient, self.axis.size)]
        mine, pending = self.axis.reduce_scatter(self.buffers[-1], purpose="gradient")
        pending.wait()
        return mine

    def step(self, max_norm):
        self.buffers = []
        return super().step(max_norm)


class Zero2ReducesAtTheLast(Zero2):
    """Everything is reduced and freed during backward, but in the hook of the last gradient."""

    def gradient_exists(self, p):
        if all(q.grad is not None for q in self.shards):
            for q in self.shards:
                super().gradient_exists(q)


class Zero2NormOfAShard(Zero2):
    def gradient_norm(self):
        return self.squares().sqrt()

    def finite(self, norm):
        return True


class Zero2AddsNorms(Zero2):
    def gradient_norm(self):
        norm = self.squares().sqrt()
        self.axis.all_reduce(norm, purpose="control").wait()
        return norm


class Zero2NormOfTheSum(Zero2):
    """The norm of the sum over ranks, not of the mean."""

    def gradient_norm(self):
        return super().gradient_norm() * self.axis.size


class Zero2ReturnsNoNorm(Zero2):
    def step(self, max_norm):
        super().step(max_norm)


class Zero2LooksAtItsOwnInfinity(Zero2):
    """The rank that sees the overflow skips the step, the others do not."""

    def finite(self, norm):
        return self.squares().isfinite()


class Zero2StepsAnyway(Zero2):
    def finite(self, norm):
        return True


class Zero2HidesInfinity(Zero2):
    """Each rank zeroes what is not finite, and goes on."""

    def squares(self):
        for shard in self.shards.values():
            shard.grad.nan_to_num_(0.0, 0.0, 0.0)
        return super().squares()


class Zero2Sums(Zero2):
    def mean(self, gradient):
        return self.summed(gradient) * 1.0


class Zero2DividesTwice(Zero2):
    def mean(self, gradient):
        return self.summed(gradient / self.axis.size) / self.axis.size


class Zero2LearnsAlone(Zero2):
    def summed(self, gradient):
        return self.part_of(padded(gradient, self.axis.size)) * self.axis.size


class Zero2ReducesAll(Zero2):
    def summed(self, gradient):
        whole = padded(gradient, self.axis.size)
        self.axis.all_reduce(whole, purpose="gradient").wait()
        return self.part_of(whole)


class Zero2DropsTheRest(Zero2):
    """The elements that N leaves over belong to nobody: they stay as they are."""

    def mean(self, gradient):
        whole = padded(gradient, self.axis.size)
        whole[gradient.numel() - gradient.numel() % self.axis.size :] = 0
        return super().mean(whole)


class Zero2ShiftsTheRest(Zero2):
    def mean(self, gradient):
        return super().mean(F.pad(gradient.flatten(), (-gradient.numel() % self.axis.size, 0)))


class Zero2NeverPads(Zero2):
    def summed(self, gradient):
        mine, pending = self.axis.reduce_scatter(gradient.flatten().clone(), purpose="gradient")
        pending.wait()
        return mine


class Zero2PadsWithWhatWasThere(Zero2):
    """The padding is not zero: harmless for the weights, not for the norm. Weights and norm are both checked where it pads."""

    def mean(self, gradient):
        mine = super().mean(gradient)
        if self.axis.rank == self.axis.size - 1 and gradient.numel() % self.axis.size:
            mine[-1] += 0.5
        return mine


class Zero2Unsharded(Zero2):
    """Gradients are freed, states are not shared: each rank updates everything with what it gathers back."""

    def __init__(self, model, axis, make_optimizer):
        super().__init__(model, axis, make_optimizer)
        self.whole = list(model.parameters())
        self.optimizer = make_optimizer(self.whole)

    def publish(self):
        pass

    def step(self, max_norm):
        for p, shard in self.shards.items():
            whole = padded(p.data, self.axis.size)
            self.part_of(whole).copy_(shard.grad)
            self.axis.all_gather(whole, purpose="gradient").wait()
            p.grad = whole[: p.numel()].view_as(p).clone()
        norm = super().step(max_norm)
        for p in self.shards:
            p.grad = None
        return norm


class Zero2ForgetsTheGrad(Zero2):
    """The mean goes to a list that nobody reads."""

    def gradient_exists(self, p):
        self.mean(p.grad)
        p.grad = None

    def gradient_norm(self):
        return torch.ones(())

    def step(self, max_norm):
        self.optimizer.step()
        self.publish()


class Zero2NeverWaits(Zero2):
    def summed(self, gradient):
        return self.axis.reduce_scatter(padded(gradient, self.axis.size), purpose="gradient")[0]


class Zero2Accumulates(Zero2):
    """Adds to the last step's gradients."""

    def gradient_exists(self, p):
        shard = self.shards[p]
        mean = self.mean(p.grad)
        self.sums = getattr(self, "sums", {})
        self.sums[p] = shard.grad = self.sums.get(p, 0) + mean
        p.grad = None


class Zero2ForThree(Zero2):
    def mean(self, gradient):
        return self.summed(gradient) / 3


# ---------------------------------------------------------------- exercise 3
class Unit:
    """A block with its one flat buffer, emptied in place; wrong answers change one of its methods."""

    def __init__(self, block, axis):
        self.block, self.axis, self.parameters = block, axis, list(block.parameters())
        self.flat = flatten(self.parameters, axis.size)
        self.bytes = self.flat.nbytes
        self.shard = self.cut()
        self.missing = set(self.parameters)
        self.hook()
        self.free_at_first()

    def cut(self):
        return nn.Parameter(self.part_of(self.flat).clone())

    def hook(self):
        self.block.register_forward_pre_hook(self.before_forward)
        self.block.register_forward_hook(self.after_forward)
        for p in self.parameters:
            p.register_post_accumulate_grad_hook(self.gradient_exists)

    def part_of(self, whole):
        return whole.chunk(self.axis.size)[self.axis.rank]

    def gather(self):
        self.flat.untyped_storage().resize_(self.bytes)
        self.part_of(self.flat).copy_(self.shard.data)
        self.axis.all_gather(self.flat, purpose="parameter").wait()

    def free(self):
        self.flat.untyped_storage().resize_(0)

    free_at_first = free

    def before_forward(self, *_):
        self.gather()

    def after_forward(self, block, inputs, output):
        self.free()
        output.register_hook(self.before_backward)

    def before_backward(self, gradient):
        self.gather()

    def gradient_exists(self, p):
        self.missing.discard(p)
        if not self.missing:
            self.missing.update(self.parameters)
            self.after_backward()

    def after_backward(self):
        self.free()
        self.reduce()

    def whole_gradient(self):
        whole = torch.cat([p.grad.flatten() for p in self.parameters])
        return F.pad(whole, (0, -len(whole) % self.axis.size))

    def drop_gradients(self):
        for p in self.parameters:
            p.grad = None

    def summed(self, whole):
        mine, pending = self.axis.reduce_scatter(whole, purpose="gradient")
        pending.wait()
        return mine

    def mean(self, whole):
        return self.summed(whole) / self.axis.size

    def reduce(self):
        whole = self.whole_gradient()
        self.drop_gradients()
        self.shard.grad = self.mean(whole)


class Zero3:
    unit = Unit

    def __init__(self, blocks, axis):
        self.units = [self.unit(block, axis) for block in blocks]
        self.shards = [unit.shard for unit in self.units]


class Zero3AheadOfTime:
    """Gathers the next block while this one computes, and reduces one block behind the backward pass; torch's own pre-hooks.

    A freed parameter is empty besides, as in the lesson's engine.
    """

    def __init__(self, blocks, axis):
        self.axis, self.blocks = axis, list(blocks)
        self.parameters = [list(block.parameters()) for block in blocks]
        self.flat = [flatten(parameters, axis.size) for parameters in self.parameters]
        self.bytes, self.views = [flat.nbytes for flat in self.flat], [[p.data for p in parameters] for parameters in self.parameters]
        self.shards = [self.part_of(flat).clone() for flat in self.flat]
        self.coming, self.sums = {}, []
        for i, block in enumerate(blocks):
            missing = set(self.parameters[i])
            block.register_forward_pre_hook(partial(self.need, i, +1))
            block.register_forward_hook(partial(self.free, i))
            block.register_full_backward_pre_hook(partial(self.need, i, -1))
            for p in self.parameters[i]:
                p.register_post_accumulate_grad_hook(partial(self.came, i, missing))
            self.free(i)

    def part_of(self, whole):
        return whole.chunk(self.axis.size)[self.axis.rank]

    def begin(self, i):
        if 0 <= i < len(self.flat) and i not in self.coming:
            self.flat[i].untyped_storage().resize_(self.bytes[i])
            for p, view in zip(self.parameters[i], self.views[i], strict=True):
                p.data = view
            self.part_of(self.flat[i]).copy_(self.shards[i])
            self.coming[i] = self.axis.all_gather(self.flat[i], purpose="parameter", label=f"block {i}")

    def need(self, i, onward, *_):
        self.begin(i)
        self.coming[i].wait()
        self.begin(i + onward)

    def free(self, i, *_):
        if i in self.coming:
            self.coming.pop(i).wait()
        for p in self.parameters[i]:
            p.data = p.data.new_empty(0)
        self.flat[i].untyped_storage().resize_(0)

    def came(self, i, missing, p):
        missing.discard(p)
        if not missing:
            missing.update(self.parameters[i])
            self.free(i)
            whole = torch.cat([q.grad.flatten() for q in self.parameters[i]]) / self.axis.size
            for q in self.parameters[i]:
                q.grad = None
            self.arrive()
            self.sums.append((i, *self.axis.reduce_scatter(F.pad(whole, (0, -len(whole) % self.axis.size)), purpose="gradient")))
            if i == 0:
                self.arrive()

    def arrive(self):
        for i, mine, pending in self.sums:
            pending.wait()
            self.shards[i].grad = mine.clone()
        self.sums = []


class _Recomputed(torch.autograd.Function):
    """A block that keeps only its input, and computes again in the backward pass; the shard's gradient is autograd's to keep."""

    @staticmethod
    def forward(ctx, x, shard, unit):
        ctx.save_for_backward(x)
        ctx.unit = unit
        return unit.compute(shard, lambda: unit.forward(x))

    @staticmethod
    def backward(ctx, gradient):
        (x,), unit = ctx.saved_tensors, ctx.unit
        x = x.detach().requires_grad_()

        def differentiate():
            with torch.enable_grad():
                return torch.autograd.grad(unit.forward(x), [x, *unit.parameters], gradient)

        for_x, *for_weights = unit.compute(unit.shard, differentiate)
        whole = torch.cat([g.flatten() for g in for_weights])
        mine, pending = unit.axis.reduce_scatter(F.pad(whole, (0, -len(whole) % unit.axis.size)), purpose="gradient")
        pending.wait()
        return for_x, mine / unit.axis.size, None


class _RecomputedUnit:
    def __init__(self, block, axis):
        self.axis, self.forward, self.parameters = axis, block.forward, list(block.parameters())
        self.shapes = [p.shape for p in self.parameters]
        flat = flatten(self.parameters, axis.size)
        self.shard = nn.Parameter(flat.chunk(axis.size)[axis.rank].clone())
        self.drop()
        block.forward = lambda x: _Recomputed.apply(x, self.shard, self)

    def drop(self):
        for p in self.parameters:
            p.data = torch.empty(0, dtype=p.dtype)

    def compute(self, shard, what):
        whole = shard.new_zeros(shard.numel() * self.axis.size)
        whole.chunk(self.axis.size)[self.axis.rank].copy_(shard.detach())
        self.axis.all_gather(whole, purpose="parameter").wait()
        begin = 0
        for p, shape in zip(self.parameters, self.shapes, strict=True):
            p.data = whole[begin : begin + shape.numel()].view(shape)
            begin += shape.numel()
        result = what()
        self.drop()
        return result


class Zero3Recomputed(Zero3):
    unit = _RecomputedUnit


class _ViewUnit(Unit):
    def cut(self):
        return nn.Parameter(self.part_of(self.flat))

    def free_at_first(self):
        for p in self.parameters:
            p.data = torch.empty(0)


class Zero3ShardIsAView(Zero3):
    unit = _ViewUnit


class _NeverFreedUnit(Unit):
    def free_at_first(self):
        pass


class Zero3WholeAtFirst(Zero3):
    """Freed for the first time after the first forward pass."""

    unit = _NeverFreedUnit


class Zero3Unsharded:
    """The optimizer gets everything; nothing is ever gathered."""

    def __init__(self, blocks, axis):
        self.axis, self.shards = axis, [p for block in blocks for p in block.parameters()]
        for p in self.shards:
            p.register_post_accumulate_grad_hook(self.came)

    def came(self, p):
        self.axis.all_reduce(p.grad, purpose="gradient").wait()
        p.grad /= self.axis.size


class _KeptAfterForwardUnit(Unit):
    def after_forward(self, block, inputs, output):
        pass


class Zero3KeepsAfterForward(Zero3):
    unit = _KeptAfterForwardUnit


class _GathersOnceUnit(Unit):
    def before_forward(self, *_):
        pass


class Zero3GathersAllUpFront(Zero3):
    """One hook on the first block gathers everything; each block then frees itself."""

    unit = _GathersOnceUnit

    def __init__(self, blocks, axis):
        super().__init__(blocks, axis)
        blocks[0].register_forward_pre_hook(lambda *_: [unit.gather() for unit in self.units] and None)


class _SwappedUnit(Unit):
    """Frees by giving each parameter other data: autograd holds the old."""

    def gather(self):
        whole = self.shard.new_zeros(self.shard.numel() * self.axis.size)
        self.part_of(whole).copy_(self.shard.data)
        self.axis.all_gather(whole, purpose="parameter").wait()
        begin = 0
        for p, shape in zip(self.parameters, self.shapes, strict=True):
            p.data = whole[begin : begin + shape.numel()].view(shape)
            begin += shape.numel()

    def free(self):
        for p in self.parameters:
            p.data = torch.empty(0)

    def free_at_first(self):
        self.shapes, self.flat = [p.shape for p in self.parameters], None
        self.free()


class Zero3SwapsTheData(Zero3):
    unit = _SwappedUnit


class _NotForBackwardUnit(Unit):
    def before_backward(self, gradient):
        pass


class Zero3NeverGathersForBackward(Zero3):
    unit = _NotForBackwardUnit


class _FreedTooEarlyUnit(Unit):
    """Frees in torch's full backward hook: for the first block it comes before the backward pass, not after."""

    def hook(self):
        super().hook()
        self.block.register_full_backward_pre_hook(lambda *_: self.gather())
        self.block.register_full_backward_hook(lambda *_: self.free())

    def after_forward(self, block, inputs, output):
        self.free()


class Zero3FreesTooEarly(Zero3):
    unit = _FreedTooEarlyUnit


class _GatheredInTheFirstStepUnit(Unit):
    done = False

    def before_forward(self, *_):
        if not self.done:
            self.gather()
        self.done = True


class Zero3GathersOnlyInTheFirstStep(Zero3):
    unit = _GatheredInTheFirstStepUnit


class _KeptAfterBackwardUnit(Unit):
    def after_backward(self):
        self.reduce()


class Zero3KeepsAfterBackward(Zero3):
    unit = _KeptAfterBackwardUnit


class Zero3GathersAllForBackward(Zero3):
    def __init__(self, blocks, axis):
        super().__init__(blocks, axis)
        for unit in self.units[:-1]:
            unit.before_backward = lambda gradient: None
        last = self.units[-1]
        last.before_backward = lambda gradient: [unit.gather() for unit in self.units] and None


class Zero3ReducesAtTheLast(Zero3):
    """Gradients of all blocks wait for the first block's."""

    def __init__(self, blocks, axis):
        super().__init__(blocks, axis)
        for unit in self.units[1:]:
            unit.after_backward = unit.free
        first = self.units[0]
        first.after_backward = lambda: (first.free(), [unit.reduce() for unit in self.units])


class _KeptGradientsUnit(Unit):
    def drop_gradients(self):
        self.block.whole = self.whole_gradient()
        super().drop_gradients()


class Zero3KeepsGradients(Zero3):
    unit = _KeptGradientsUnit


class _KeptGradUnit(Unit):
    def drop_gradients(self):
        pass


class Zero3KeepsGrad(Zero3):
    unit = _KeptGradUnit


class _GradientViewUnit(Unit):
    def mean(self, whole):
        return self.summed(whole).div_(self.axis.size)


class Zero3KeepsAGradientView(Zero3):
    unit = _GradientViewUnit


class _SumUnit(Unit):
    def mean(self, whole):
        return self.summed(whole) * 1.0


class Zero3Sums(Zero3):
    unit = _SumUnit


class _TwiceDividedUnit(Unit):
    def mean(self, whole):
        return self.summed(whole / self.axis.size) / self.axis.size


class Zero3DividesTwice(Zero3):
    unit = _TwiceDividedUnit


class _LonelyUnit(Unit):
    def summed(self, whole):
        return self.part_of(whole) * self.axis.size


class Zero3LearnsAlone(Zero3):
    unit = _LonelyUnit


class _AllReduceUnit(Unit):
    def summed(self, whole):
        self.axis.all_reduce(whole, purpose="gradient").wait()
        return self.part_of(whole)


class Zero3ReducesAll(Zero3):
    unit = _AllReduceUnit


class Zero3GathersAnOldCopy(Zero3):
    """The last block's shard goes to the optimizer as a copy: what it gathers is never updated."""

    def __init__(self, blocks, axis):
        super().__init__(blocks, axis)
        self.shards[-1] = nn.Parameter(self.shards[-1].detach().clone())
        unit, theirs = self.units[-1], self.shards[-1]
        mean = unit.mean
        unit.mean = lambda whole: setattr(theirs, "grad", mean(whole))


class _NeighboursUnit(Unit):
    def cut(self):
        return nn.Parameter(self.flat.chunk(self.axis.size)[(self.axis.rank + 1) % self.axis.size].clone())


class Zero3CutsTheNeighboursPart(Zero3):
    unit = _NeighboursUnit


class _ShiftedUnit(Unit):
    def whole_gradient(self):
        whole = torch.cat([p.grad.flatten() for p in self.parameters])
        return F.pad(whole, (-len(whole) % self.axis.size, 0))


class Zero3ShiftsTheRest(Zero3):
    unit = _ShiftedUnit


class _DroppedUnit(Unit):
    def whole_gradient(self):
        whole = torch.cat([p.grad.flatten() for p in self.parameters])
        whole[len(whole) - len(whole) % self.axis.size :] = 0
        return F.pad(whole, (0, -len(whole) % self.axis.size))


class Zero3DropsTheRest(Zero3):
    unit = _DroppedUnit


class _UnpaddedUnit(Unit):
    def whole_gradient(self):
        return torch.cat([p.grad.flatten() for p in self.parameters])


class Zero3NeverPads(Zero3):
    unit = _UnpaddedUnit


class _UnwaitedUnit(Unit):
    def gather(self):
        self.flat.untyped_storage().resize_(self.bytes)
        self.part_of(self.flat).copy_(self.shard.data)
        self.axis.all_gather(self.flat, purpose="parameter")


class Zero3NeverWaits(Zero3):
    unit = _UnwaitedUnit


class _ThriceUnit(Unit):
    def before_backward(self, gradient):
        self.gather()
        self.gather()


class Zero3GathersThrice(Zero3):
    unit = _ThriceUnit


class _AccumulatingUnit(Unit):
    def mean(self, whole):
        self.total = getattr(self, "total", 0) + super().mean(whole)
        return self.total


class Zero3Accumulates(Zero3):
    unit = _AccumulatingUnit


class _ForThreeUnit(Unit):
    def mean(self, whole):
        return self.summed(whole) / 3


class Zero3ForThree(Zero3):
    unit = _ForThreeUnit


class Zero3WithoutShards(Zero3):
    def __init__(self, blocks, axis):
        super().__init__(blocks, axis)
        del self.shards


class _DeadlyUnit(Unit):
    def before_backward(self, gradient):
        os.kill(os.getpid(), signal.SIGSEGV)        # as a read of memory that is gone would


class Zero3ReadsWhatIsGone(Zero3):
    unit = _DeadlyUnit


RIGHT = {
    "zero1": [Zero1, Zero1OfParameters, Zero1WithMasterWeights],
    "zero2": [Zero2, Zero2OneBehind, Zero2OfBlocks],
    "zero3": [Zero3, Zero3AheadOfTime, Zero3Recomputed],
}
WRONG = {
    "zero1": [
        (Zero1Unsharded, "states.whole"), (Zero1CutsTheStates, "states.peak"), (Zero1LooksAtTheStates, "states.view"), (Zero1NeverGathers, "weights.old"),
        (Zero1NeverWaits, "never-waited"), (Zero1NeverWaitsForTheSum, "never-waited"), (Zero1Sums, "gradient.scale"), (Zero1DividesTwice, "gradient.scale"),
        (Zero1LearnsAlone, "gradient.not-summed"), (Zero1ReducesAll, "traffic"), (Zero1DropsTheRest, "padding"), (Zero1ShiftsTheRest, "padding"),
        (Zero1NeverPads, "padding"), (Zero1LastRankTakesTheRest, "padding"), (Zero1ForgetsMomentum, "second-step"), (Zero1ForFour, "any-n"),
        (Zero1OneRankSkips, "mismatch"), (Zero1AroundTheAxis, "only-axis"), (Zero1Raises, "raised"),
        (Zero1Empties, "emptied"),
    ],
    "zero2": [
        (Zero2KeepsGradients, "gradients.kept"), (Zero2ReducesInStep, "gradients.kept"), (Zero2KeepsAView, "gradients.view"),
        (Zero2HoldsTheBuffers, "gradients.kept"), (Zero2ReducesAtTheLast, "gradients.peak"), (Zero2NormOfAShard, "norm"), (Zero2AddsNorms, "norm"),
        (Zero2NormOfTheSum, "norm"), (Zero2ReturnsNoNorm, "norm"), (Zero2LooksAtItsOwnInfinity, "overflow"), (Zero2StepsAnyway, "overflow"),
        (Zero2HidesInfinity, "overflow"), (Zero2Sums, "gradient.scale"), (Zero2DividesTwice, "gradient.scale"),
        (Zero2LearnsAlone, "gradient.not-summed"), (Zero2ReducesAll, "traffic"), (Zero2DropsTheRest, "padding"), (Zero2ShiftsTheRest, "padding"),
        (Zero2NeverPads, "padding"), (Zero2PadsWithWhatWasThere, "any-n"), (Zero2Unsharded, "states.whole"), (Zero2ForgetsTheGrad, "weights.old"),
        (Zero2NeverWaits, "never-waited"), (Zero2Accumulates, "second-step"), (Zero2ForThree, "any-n"),
    ],
    "zero3": [
        (Zero3ShardIsAView, "shard.view"), (Zero3WholeAtFirst, "made.whole"), (Zero3Unsharded, "made.whole"), (Zero3KeepsAfterForward, "forward.kept"),
        (Zero3GathersAllUpFront, "forward.peak"), (Zero3SwapsTheData, "autograd.keeps"), (Zero3NeverGathersForBackward, "backward.not-gathered"),
        (Zero3FreesTooEarly, "backward.not-gathered"), (Zero3GathersOnlyInTheFirstStep, "forward.not-gathered"),
        (Zero3KeepsAfterBackward, "backward.kept"), (Zero3GathersAllForBackward, "backward.peak"), (Zero3ReducesAtTheLast, "backward.peak"),
        (Zero3KeepsGradients, "gradients.kept"), (Zero3KeepsGrad, "gradients.kept"), (Zero3KeepsAGradientView, "gradients.view"),
        (Zero3Sums, "gradient.scale"), (Zero3DividesTwice, "gradient.scale"), (Zero3LearnsAlone, "gradient.not-summed"), (Zero3ReducesAll, "traffic"),
        (Zero3GathersAnOldCopy, "weights.old"), (Zero3CutsTheNeighboursPart, "forward.value"), (Zero3ShiftsTheRest, "padding"),
        (Zero3DropsTheRest, "padding"), (Zero3NeverPads, "padding"), (Zero3NeverWaits, "never-waited"), (Zero3GathersThrice, "traffic"),
        (Zero3Accumulates, "second-step"), (Zero3ForThree, "any-n"), (Zero3WithoutShards, "raised"),
        (Zero3ReadsWhatIsGone, "killed"),
    ],
}  # fmt: skip
