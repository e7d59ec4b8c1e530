"""Wrong answers to lab 05, exercise 3, each with the criterion that it must fail on."""

from __future__ import annotations

import time

import torch

from lab_utils.parallel.data_parallel import BucketedSync

from .buckets import Right


class BlocksInTheHook(Right):
    """Called overlapped, but each all-reduce is waited for at once."""

    def send(self):
        super().send()
        self.sent[-1][1].wait()


class WaitsForTheOneBefore(Right):
    def arrived(self, number):
        for _, pending in self.sent:
            pending.wait()
        super().arrived(number)


class WaitsPastThePending(Right):
    """Goes behind the back of Pending, which notes when it was waited for."""

    def send(self):
        super().send()
        for work in self.sent[-1][1]._works:
            work.wait()


class ForwardOrder(Right):
    forward_order = True


class NeverFlushed(Right):
    """The bucket that is not full when the parameters end is dropped."""

    def __init__(self, model, axis, bucket_bytes):
        super().__init__(model, axis, bucket_bytes)
        self.buckets.pop()
        self.begin()

    def arrived(self, number):
        if number < len(self.buckets):
            super().arrived(number)


class SumsStayInTheBuffers(Right):
    """Everything travels on time, and nothing is written back."""

    def finish(self):
        while len(self.sent) < len(self.buckets):
            self.send()
        for _, pending in self.sent:
            pending.wait()
        self.begin()


class OnlyWhatIsComplete(Right):
    """A bucket with a parameter that was not used is never sent."""

    def finish(self):
        for bucket, (flat, pending) in zip(self.buckets, self.sent, strict=False):
            pending.wait()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                p.grad = part.view_as(p) / self.axis.size
        self.begin()


class WaitsForTheUnused(Right):
    def finish(self):
        while len(self.sent) < len(self.buckets):
            time.sleep(0.01)
        super().finish()


class BucketsByArrival(Right):
    """Fills buckets in the order in which gradients come: it differs between ranks as soon as one of them skips a branch."""

    def __init__(self, model, axis, bucket_bytes):
        self.axis, self.bucket_bytes, self.parameters = axis, bucket_bytes, list(model.parameters())
        self.divide_after = axis.size
        for p in self.parameters:
            p.register_post_accumulate_grad_hook(self.came)
        self.begin()

    def begin(self):
        self.buckets, self.open, self.sent = [], [], []

    def came(self, p):
        if self.open and sum(q.numel() * q.element_size() for q in [*self.open, p]) > self.bucket_bytes:
            self.close()
        self.open.append(p)

    def close(self):
        self.buckets.append(self.open)
        self.open = []
        self.send()

    def finish(self):
        there = {id(p) for bucket in [*self.buckets, self.open] for p in bucket}
        for rest in (self.open, [p for p in self.parameters if id(p) not in there]):
            self.open = rest
            if rest:
                self.close()
        super().finish()


class NoDivision(Right):
    def __init__(self, *args):
        super().__init__(*args)
        self.divide_after = None


class DividesTwice(Right):
    def __init__(self, *args):
        super().__init__(*args)
        self.divide_before = self.axis.size


class DividesByTwo(Right):
    """Right for N = 2."""

    def __init__(self, *args):
        super().__init__(*args)
        self.divide_after = 2


class DividesByThree(Right):
    """Right for N = 3."""

    def __init__(self, *args):
        super().__init__(*args)
        self.divide_after = 3


class LooksAtTheSecondBucket(Right):
    """Takes for granted that there are two."""

    def __init__(self, *args):
        super().__init__(*args)
        self.next_one = self.buckets[1]


class SendsTheFirstTwice(Right):
    def finish(self):
        flat = self.sent[0][0].clone()
        super().finish()
        self.axis.all_reduce(flat, purpose="gradient").wait()


class RaisesInTheHook(Right):
    def arrived(self, number):
        raise KeyError(number)


class OneRankSendsLess(Right):
    """Rank 0 thinks that its last bucket is not needed."""

    def finish(self):
        if self.axis.rank == 0 and len(self.sent) == len(self.buckets):
            self.begin()
            return
        self.axis.all_reduce(torch.zeros(3), purpose="gradient").wait()


class OneForAllAtTheEnd(Right):
    def __init__(self, model, axis, bucket_bytes):
        super().__init__(model, axis, 2**40)


class ClosesAfterTheLimit(Right):
    """The layout of the lesson's engine."""

    def full(self, size, nbytes, bucket_bytes):
        return size >= bucket_bytes


class SendsAllInFinish(Right):
    """The buckets are right, but they leave when the backward pass is over."""

    def arrived(self, number):
        pass


class Naive(Right):
    def __init__(self, model, axis, bucket_bytes):
        super().__init__(model, axis, 1)


class NaiveAfterBackward:
    def __init__(self, model, axis, bucket_bytes):
        self.model, self.axis = model, axis

    def finish(self):
        for p in self.model.parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            self.axis.all_reduce(p.grad, purpose="gradient").wait()
            p.grad /= self.axis.size


class NeverWaits(Right):
    def send(self):
        super().send()
        flat, pending = self.sent[-1]
        self.sent[-1] = flat, type("Forgotten", (), {"wait": lambda self: time.sleep(0.05)})()


class NeverResets(Right):
    def begin(self):
        if not hasattr(self, "sent"):
            super().begin()


class SendsNothing:
    def __init__(self, model, axis, bucket_bytes):
        pass

    def finish(self):
        pass


class AroundTheAxis(Right):
    def send(self):
        super().send()
        torch.distributed.all_reduce(torch.zeros(1), group=self.axis.group)


class PacksInAnotherOrder(Right):
    """Unpacks in the other order than it packed."""

    def finish(self):
        super().finish()
        for bucket in self.buckets:
            flat = torch.cat([p.grad.flatten() for p in bucket])
            for p, part in zip(bucket[::-1], flat.split([p.numel() for p in bucket[::-1]]), strict=True):
                p.grad = part.view_as(p).clone()


WRONG = [
    (BlocksInTheHook, "overlap.waited-early"), (WaitsForTheOneBefore, "overlap.waited-early"), (ForwardOrder, "buckets.order"),
    (WaitsPastThePending, "overlap.waited-early"), (NeverFlushed, "buckets.unflushed"), (SumsStayInTheBuffers, "buckets.not-returned"),
    (OnlyWhatIsComplete, "unused"), (WaitsForTheUnused, "unused"), (BucketsByArrival, "unused"), (NoDivision, "gradient.scale"),
    (DividesTwice, "gradient.scale"), (DividesByTwo, "gradient.scale"), (OneForAllAtTheEnd, "buckets.size"), (ClosesAfterTheLimit, "buckets.size"),
    (BucketedSync, "gradient.scale"), (SendsAllInFinish, "overlap.left-late"), (Naive, "buckets.count"), (NaiveAfterBackward, "buckets.count"),
    (NeverWaits, "overlap.never-waited"), (DividesByThree, "any-n"), (LooksAtTheSecondBucket, "one-bucket"), (SendsTheFirstTwice, "buckets.bytes"),
    (RaisesInTheHook, "raised"), (OneRankSendsLess, "mismatch"), (NeverResets, "second-step"), (SendsNothing, "buckets.none"),
    (AroundTheAxis, "buckets.only-axis"), (PacksInAnotherOrder, "gradient.value"),
]  # fmt: skip
