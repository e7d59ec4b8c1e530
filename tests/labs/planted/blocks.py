"""Right answers to lab 06, exercise 3: ZeRO-3."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from .update import flatten


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


RIGHT = [Zero3, Zero3AheadOfTime, Zero3Recomputed]
