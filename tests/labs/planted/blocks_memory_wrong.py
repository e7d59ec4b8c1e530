"""Wrong answers to lab 06, exercise 3: what they hold, and when."""

from __future__ import annotations

import torch
from torch import nn

from .blocks import Unit, Zero3


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


WRONG = [
    (Zero3ShardIsAView, "shard.view"), (Zero3WholeAtFirst, "made.whole"), (Zero3Unsharded, "made.whole"), (Zero3KeepsAfterForward, "forward.kept"),
    (Zero3GathersAllUpFront, "forward.peak"), (Zero3SwapsTheData, "autograd.keeps"), (Zero3NeverGathersForBackward, "backward.not-gathered"),
    (Zero3FreesTooEarly, "backward.not-gathered"), (Zero3GathersOnlyInTheFirstStep, "forward.not-gathered"), (Zero3KeepsAfterBackward, "backward.kept"),
    (Zero3GathersAllForBackward, "backward.peak"), (Zero3ReducesAtTheLast, "backward.peak"), (Zero3KeepsGradients, "gradients.kept"),
    (Zero3KeepsGrad, "gradients.kept"), (Zero3KeepsAGradientView, "gradients.view"),
]  # fmt: skip
