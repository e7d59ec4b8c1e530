"""Wrong answers to lab 06, exercise 3: other numbers, other traffic, no shards, and one that ends the process."""

from __future__ import annotations

import os
import signal

import torch
import torch.nn.functional as F
from torch import nn

from .blocks import Unit, Zero3


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


WRONG = [
    (Zero3Sums, "gradient.scale"), (Zero3DividesTwice, "gradient.scale"), (Zero3LearnsAlone, "gradient.not-summed"), (Zero3ReducesAll, "traffic"),
    (Zero3GathersAnOldCopy, "weights.old"), (Zero3CutsTheNeighboursPart, "forward.value"), (Zero3ShiftsTheRest, "padding"), (Zero3DropsTheRest, "padding"),
    (Zero3NeverPads, "padding"), (Zero3NeverWaits, "never-waited"), (Zero3GathersThrice, "traffic"), (Zero3Accumulates, "second-step"),
    (Zero3ForThree, "any-n"), (Zero3WithoutShards, "raised"), (Zero3ReadsWhatIsGone, "killed"),
]  # fmt: skip
