"""Answers to lab 06, exercise 1: right ones, and wrong ones with the criterion that they must fail on."""

from __future__ import annotations

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


RIGHT = [Zero1, Zero1OfParameters, Zero1WithMasterWeights]
WRONG = [
    (Zero1Unsharded, "states.whole"), (Zero1CutsTheStates, "states.peak"), (Zero1LooksAtTheStates, "states.view"), (Zero1NeverGathers, "weights.old"),
    (Zero1NeverWaits, "never-waited"), (Zero1NeverWaitsForTheSum, "never-waited"), (Zero1Sums, "gradient.scale"), (Zero1DividesTwice, "gradient.scale"),
    (Zero1LearnsAlone, "gradient.not-summed"), (Zero1ReducesAll, "traffic"), (Zero1DropsTheRest, "padding"), (Zero1ShiftsTheRest, "padding"),
    (Zero1NeverPads, "padding"), (Zero1LastRankTakesTheRest, "padding"), (Zero1ForgetsMomentum, "second-step"), (Zero1ForFour, "any-n"),
    (Zero1OneRankSkips, "mismatch"), (Zero1AroundTheAxis, "only-axis"), (Zero1Raises, "raised"), (Zero1Empties, "emptied"),
]  # fmt: skip
