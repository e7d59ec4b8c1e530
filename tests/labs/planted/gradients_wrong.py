"""Wrong answers to lab 06, exercise 2, each with the criterion that it must fail on."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .gradients import Zero2, padded


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


WRONG = [
    (Zero2KeepsGradients, "gradients.kept"), (Zero2ReducesInStep, "gradients.kept"), (Zero2KeepsAView, "gradients.view"),
    (Zero2HoldsTheBuffers, "gradients.kept"), (Zero2ReducesAtTheLast, "gradients.peak"), (Zero2NormOfAShard, "norm"), (Zero2AddsNorms, "norm"),
    (Zero2NormOfTheSum, "norm"), (Zero2ReturnsNoNorm, "norm"), (Zero2LooksAtItsOwnInfinity, "overflow"), (Zero2StepsAnyway, "overflow"),
    (Zero2HidesInfinity, "overflow"), (Zero2Sums, "gradient.scale"), (Zero2DividesTwice, "gradient.scale"), (Zero2LearnsAlone, "gradient.not-summed"),
    (Zero2ReducesAll, "traffic"), (Zero2DropsTheRest, "padding"), (Zero2ShiftsTheRest, "padding"), (Zero2NeverPads, "padding"),
    (Zero2PadsWithWhatWasThere, "any-n"), (Zero2Unsharded, "states.whole"), (Zero2ForgetsTheGrad, "weights.old"), (Zero2NeverWaits, "never-waited"),
    (Zero2Accumulates, "second-step"), (Zero2ForThree, "any-n"),
]  # fmt: skip
