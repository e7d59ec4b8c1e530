"""Answers to lab 05 that must fail, each with the criteria it may fail on, and different right ones that must pass.

Every answer stands alone, as a learner would write it; the ring's use a global `chunk_bounds`, as in the lab.
"""

from __future__ import annotations

import time

import torch

from lab_utils.parallel.data_parallel import BucketedSync  # what the lesson shows: no answer to the lab


# ---------------------------------------------------------------- exercise 1
def chunk_bounds(numel, n):
    size, extra = divmod(numel, n)
    bounds, begin = [], 0
    for chunk in range(n):
        end = begin + size + (chunk < extra)
        bounds.append((begin, end))
        begin = end
    return bounds


def chunks_by_proportion(numel, n):
    return [(r * numel // n, (r + 1) * numel // n) for r in range(n)]


def chunks_by_torch_tensor_split(numel, n):
    starts = torch.arange(numel).tensor_split(n)
    ends = torch.tensor([len(s) for s in starts]).cumsum(0).tolist()
    return tuple([b, e] for b, e in zip([0, *ends[:-1]], ends, strict=True))


def chunks_by_torch_chunk(numel, n):
    ends = torch.tensor([len(c) for c in torch.arange(numel).chunk(n)]).cumsum(0).tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))


def chunks_without_the_remainder(numel, n):
    size = numel // n
    return [(r * size, (r + 1) * size) for r in range(n)]


def chunks_last_takes_the_rest(numel, n):
    size = numel // n
    return [(r * size, (r + 1) * size if r < n - 1 else numel) for r in range(n)]


def chunks_rounded_up(numel, n):
    size = -(-numel // n)
    return [(r * size, (r + 1) * size) for r in range(n)]


def chunks_of_floats(numel, n):
    return [(r * numel / n, (r + 1) * numel / n) for r in range(n)]


def chunks_until_used_up(numel, n):
    size, begin, bounds = numel // n, 0, []
    while begin < numel:
        bounds.append((begin, min(begin + size, numel)))
        begin += size
    return bounds


def chunks_divides_by_the_rest(numel, n):
    return [(0, numel // (numel % n))] * n


# ---------------------------------------------------------------- exercise 2
def ring_right(tensor, axis, combine):
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = [flat[begin:end] for begin, end in chunk_bounds(flat.numel(), n)]
    for step in range(2 * (n - 1)):
        mine, theirs = chunks[(r - step) % n], chunks[(r - step - 1) % n]
        incoming = torch.empty_like(theirs)
        axis.exchange(mine, (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        theirs.copy_(combine(theirs, incoming) if step < n - 1 else incoming)


def ring_left(tensor, axis, combine):
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = [flat[begin:end] for begin, end in chunk_bounds(flat.numel(), n)]
    for step in range(2 * (n - 1)):
        mine, theirs = chunks[(r + step) % n], chunks[(r + step + 1) % n]
        incoming = torch.empty_like(theirs)
        axis.exchange(mine, (r - 1) % n, incoming, (r + 1) % n, purpose="gradient")
        theirs.copy_(combine(theirs, incoming) if step < n - 1 else incoming)


def ring_other_phase(tensor, axis, combine):
    """Rank r ends the first half with chunk r; cuts by itself, and returns the tensor, too."""
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = [flat[k * flat.numel() // n : (k + 1) * flat.numel() // n] for k in range(n)]

    def pass_on(sent, received):
        incoming = chunks[received].new_empty(chunks[received].shape)
        axis.exchange(chunks[sent], (r + 1) % n, incoming, (r - 1) % n, purpose="gradient", label=f"chunk {sent}")
        return incoming

    for step in range(1, n):
        arrived = (r - step - 1) % n
        chunks[arrived][:] = combine(chunks[arrived], pass_on((r - step) % n, arrived))
    for step in range(n - 1):
        arrived = (r - step - 1) % n
        chunks[arrived][:] = pass_on((r - step) % n, arrived)
    return tensor


def ring_with_copied_slices(tensor, axis, combine):
    """Sends copies, receives into zeros, combines the other way round."""
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    bounds = chunk_bounds(flat.numel(), n)
    for step in range(2 * (n - 1)):
        (b, e), (b2, e2) = bounds[(r - step) % n], bounds[(r - step - 1) % n]
        incoming = flat.new_zeros(e2 - b2)
        axis.exchange(flat[b:e].clone(), (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        flat[b2:e2] = combine(incoming, flat[b2:e2]) if step < n - 1 else incoming


def ring_gather_and_sum(tensor, axis, combine):
    n, r = axis.size, axis.rank
    mine, total = tensor.clone(), tensor
    for k in range(1, n):
        incoming = torch.empty_like(mine)
        axis.exchange(mine, (r + k) % n, incoming, (r - k) % n, purpose="gradient")
        total.copy_(combine(total, incoming))


def ring_whole_buffer(tensor, axis, combine):
    n, r = axis.size, axis.rank
    travelling = tensor.clone()
    for _ in range(n - 1):
        incoming = torch.empty_like(travelling)
        axis.exchange(travelling, (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        tensor.copy_(combine(tensor, incoming))
        travelling = incoming


def ring_off_by_one(tensor, axis, combine):
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = [flat[begin:end] for begin, end in chunk_bounds(flat.numel(), n)]
    for step in range(2 * (n - 1)):
        mine, theirs = chunks[(r - step) % n], chunks[(r - step - 2) % n]
        incoming = torch.empty_like(theirs)
        axis.exchange(mine, (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        theirs.copy_(combine(theirs, incoming) if step < n - 1 else incoming)


def ring_second_half_off_by_one(tensor, axis, combine):
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = [flat[begin:end] for begin, end in chunk_bounds(flat.numel(), n)]
    for half in range(2):
        for step in range(n - 1):
            mine, theirs = chunks[(r - step) % n], chunks[(r - step - 1) % n]
            incoming = torch.empty_like(theirs)
            axis.exchange(mine, (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
            theirs.copy_(incoming if half else combine(theirs, incoming))


def ring_with_torch_chunk(tensor, axis, combine):
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = flat.chunk(n)
    for step in range(2 * (n - 1)):
        mine, theirs = chunks[(r - step) % n], chunks[(r - step - 1) % n]
        incoming = torch.empty_like(theirs)
        axis.exchange(mine, (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        theirs.copy_(combine(theirs, incoming) if step < n - 1 else incoming)


def ring_receives_into_the_wrong_length(tensor, axis, combine):
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = [flat[begin:end] for begin, end in chunk_bounds(flat.numel(), n)]
    for step in range(2 * (n - 1)):
        mine, theirs = chunks[(r - step) % n], chunks[(r - step - 1) % n]
        incoming = torch.empty_like(mine)
        axis.exchange(mine, (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        theirs.copy_(combine(theirs, incoming) if step < n - 1 else incoming)


def ring_skips_a_step_when_empty(tensor, axis, combine):
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = [flat[begin:end] for begin, end in chunk_bounds(flat.numel(), n)]
    for step in range(2 * (n - 1)):
        mine, theirs = chunks[(r - step) % n], chunks[(r - step - 1) % n]
        if not len(mine):
            continue
        incoming = torch.empty_like(theirs)
        axis.exchange(mine, (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        theirs.copy_(combine(theirs, incoming) if step < n - 1 else incoming)


def ring_reduce_scatter_only(tensor, axis, combine):
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = [flat[begin:end] for begin, end in chunk_bounds(flat.numel(), n)]
    for step in range(n - 1):
        mine, theirs = chunks[(r - step) % n], chunks[(r - step - 1) % n]
        incoming = torch.empty_like(theirs)
        axis.exchange(mine, (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        theirs.copy_(combine(theirs, incoming))


def ring_always_adds(tensor, axis, combine):
    ring_right(tensor, axis, torch.add)


def ring_returns_a_new_tensor(tensor, axis, combine):
    result = tensor.clone()
    ring_right(result, axis, combine)
    return result


def ring_gives_new_chunks_a_name(tensor, axis, combine):
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = [flat[begin:end] for begin, end in chunk_bounds(flat.numel(), n)]
    for step in range(2 * (n - 1)):
        theirs = (r - step - 1) % n
        incoming = torch.empty_like(chunks[theirs])
        axis.exchange(chunks[(r - step) % n], (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        chunks[theirs] = combine(chunks[theirs], incoming) if step < n - 1 else incoming


def ring_pads(tensor, axis, combine):
    n = axis.size
    padded = torch.cat([tensor.flatten(), tensor.new_ones(-tensor.numel() % n)])
    ring_right(padded, axis, combine)
    tensor.copy_(padded[: tensor.numel()].view_as(tensor))


def ring_only_for_two(tensor, axis, combine):
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    half = flat.numel() // 2
    mine, theirs = (flat[half:], flat[:half]) if r == 0 else (flat[:half], flat[half:])
    for finished in (False, True):
        incoming = torch.empty_like(theirs)
        axis.exchange(mine, (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        theirs.copy_(incoming if finished else combine(theirs, incoming))
        mine, theirs = theirs, mine


def ring_by_doubling(tensor, axis, combine):
    """Recursive doubling: right for powers of two, and it is no ring."""
    distance = 1
    while distance < axis.size:
        incoming = torch.empty_like(tensor)
        axis.exchange(tensor, axis.rank ^ distance, incoming, axis.rank ^ distance, purpose="gradient")
        tensor.copy_(combine(tensor, incoming))
        distance *= 2


def ring_with_a_bit_mask(tensor, axis, combine):
    """Modulo by & (n − 1): a ring, for powers of two."""
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = [flat[begin:end] for begin, end in chunk_bounds(flat.numel(), n)]
    for step in range(2 * (n - 1)):
        mine, theirs = chunks[(r - step) & (n - 1)], chunks[(r - step - 1) & (n - 1)]
        incoming = torch.empty_like(theirs)
        axis.exchange(mine, (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        theirs.copy_(combine(theirs, incoming) if step < n - 1 else incoming)


def ring_around_a_hub(tensor, axis, combine):
    n, r = axis.size, axis.rank
    incoming = torch.empty_like(tensor)
    if r:
        axis.exchange(tensor, 0, incoming, 0, purpose="gradient")
        axis.exchange(tensor, 0, incoming, 0, purpose="gradient")
        tensor.copy_(incoming)
    else:
        for peer in range(1, n):
            axis.exchange(tensor, peer, incoming, peer, purpose="gradient")
            tensor.copy_(combine(tensor, incoming))
        for peer in range(1, n):
            axis.exchange(tensor, peer, incoming, peer, purpose="gradient")


def ring_calls_all_reduce(tensor, axis, combine):
    axis.all_reduce(tensor, purpose="gradient").wait()


def ring_goes_around_the_axis(tensor, axis, combine):
    parts = [torch.empty_like(tensor) for _ in range(axis.size)]
    torch.distributed.all_gather(parts, tensor, group=axis.group)
    for rank, part in enumerate(parts):
        tensor.copy_(part if rank == 0 else combine(tensor, part))


def ring_one_rank_stops_early(tensor, axis, combine):
    flat, n, r = tensor.view(-1), axis.size, axis.rank
    chunks = [flat[begin:end] for begin, end in chunk_bounds(flat.numel(), n)]
    for step in range(2 * (n - 1) - (r == 0)):
        mine, theirs = chunks[(r - step) % n], chunks[(r - step - 1) % n]
        incoming = torch.empty_like(theirs)
        axis.exchange(mine, (r + 1) % n, incoming, (r - 1) % n, purpose="gradient")
        theirs.copy_(combine(theirs, incoming) if step < n - 1 else incoming)


# ---------------------------------------------------------------- exercise 3
class Right:
    """Lists of parameters; packed when full; divided after the sum."""

    forward_order = False
    divide_before = divide_after = None

    def __init__(self, model, axis, bucket_bytes):
        self.axis, self.divide_after = axis, axis.size
        parameters = [p for p in model.parameters() if p.requires_grad]
        self.buckets, size = [[]], 0
        for p in parameters if self.forward_order else reversed(parameters):
            nbytes = p.numel() * p.element_size()
            if self.buckets[-1] and self.full(size, nbytes, bucket_bytes):
                self.buckets.append([])
                size = 0
            self.buckets[-1].append(p)
            size += nbytes
        for number, bucket in enumerate(self.buckets):
            for p in bucket:
                p.register_post_accumulate_grad_hook(lambda p, number=number: self.arrived(number))
        self.begin()

    def full(self, size, nbytes, bucket_bytes):
        return size + nbytes > bucket_bytes

    def begin(self):
        self.missing = [len(bucket) for bucket in self.buckets]
        self.sent = []

    def arrived(self, number):
        self.missing[number] -= 1
        while len(self.sent) < len(self.buckets) and self.missing[len(self.sent)] == 0:
            self.send()

    def send(self):
        bucket = self.buckets[len(self.sent)]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
        if self.divide_before:
            flat /= self.divide_before
        self.sent.append((flat, self.axis.all_reduce(flat, purpose="gradient", label=f"bucket {len(self.sent)}")))

    def finish(self):
        while len(self.sent) < len(self.buckets):
            self.send()
        for bucket, (flat, pending) in zip(self.buckets, self.sent, strict=True):
            pending.wait()
            if self.divide_after:
                flat /= self.divide_after
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                p.grad = part.view_as(p)
        self.begin()


class RightDividesBefore(Right):
    def __init__(self, *args):
        super().__init__(*args)
        self.divide_before, self.divide_after = self.axis.size, None


def right_with_flat_views(model, axis, bucket_bytes):
    """A function; flat buffers with a view for each gradient; divides before."""
    parameters = list(model.parameters())[::-1]
    groups, size = [], 0
    for p in parameters:
        nbytes = p.numel() * p.element_size()
        if not groups or size + nbytes > bucket_bytes:
            groups.append([])
            size = 0
        groups[-1].append(p)
        size += nbytes
    buffers = [torch.zeros(sum(p.numel() for p in group), dtype=group[0].dtype) for group in groups]
    views = {}
    for group, buffer in zip(groups, buffers, strict=True):
        for p, part in zip(group, buffer.split([p.numel() for p in group]), strict=True):
            views[p] = part.view_as(p)
    came, pending = set(), []

    def send_ready(all_of_them=False):
        while len(pending) < len(groups) and (all_of_them or all(p in came for p in groups[len(pending)])):
            for p in groups[len(pending)]:
                if p not in came:
                    views[p].zero_()
            pending.append(axis.all_reduce(buffers[len(pending)], purpose="gradient"))

    def hook(p):
        views[p].copy_(p.grad / axis.size)
        came.add(p)
        send_ready()

    for p in parameters:
        p.register_post_accumulate_grad_hook(hook)

    def finish():
        send_ready(all_of_them=True)
        for one in pending:
            one.wait()
        for p in parameters:
            p.grad = views[p].clone()
        came.clear()
        pending.clear()

    return finish


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


RIGHT = {
    "chunk_bounds": [chunk_bounds, chunks_by_proportion, chunks_by_torch_tensor_split],
    "ring_all_reduce": [ring_right, ring_left, ring_other_phase, ring_with_copied_slices],
    "bucketed": [Right, RightDividesBefore, right_with_flat_views],
}
WRONG = {
    "chunk_bounds": [
        (chunks_by_torch_chunk, "chunks.count"), (chunks_without_the_remainder, "chunks.cover"), (chunks_last_takes_the_rest, "chunks.balance"),
        (chunks_rounded_up, "chunks.cover"), (chunks_of_floats, "chunks.type"), (chunks_until_used_up, "chunks.count"),
        (chunks_divides_by_the_rest, "raised"),
    ],
    "ring_all_reduce": [
        (ring_gather_and_sum, "ring.neighbours"), (ring_whole_buffer, "ring.bytes"), (ring_off_by_one, "value"), (ring_second_half_off_by_one, "value"),
        (ring_with_torch_chunk, "uneven"), (ring_receives_into_the_wrong_length, "uneven"), (ring_skips_a_step_when_empty, "few"),
        (ring_reduce_scatter_only, "ring.half"), (ring_always_adds, "combine"), (ring_returns_a_new_tensor, "ring.in-place"),
        (ring_gives_new_chunks_a_name, "ring.in-place"), (ring_pads, "ring.bytes"),
        (ring_only_for_two, "value"), (ring_by_doubling, "ring.neighbours"), (ring_with_a_bit_mask, "any-n"), (ring_around_a_hub, "ring.neighbours"),
        (ring_calls_all_reduce, "ring.only-exchange"), (ring_goes_around_the_axis, "ring.only-exchange"), (ring_one_rank_stops_early, "hung"),
    ],
    "bucketed": [
        (BlocksInTheHook, "overlap.waited-early"), (WaitsForTheOneBefore, "overlap.waited-early"), (ForwardOrder, "buckets.order"),
        (WaitsPastThePending, "overlap.waited-early"),
        (NeverFlushed, "buckets.unflushed"), (SumsStayInTheBuffers, "buckets.not-returned"),
        (OnlyWhatIsComplete, "unused"), (WaitsForTheUnused, "unused"), (BucketsByArrival, "unused"),
        (NoDivision, "gradient.scale"), (DividesTwice, "gradient.scale"), (DividesByTwo, "gradient.scale"), (OneForAllAtTheEnd, "buckets.size"),
        (ClosesAfterTheLimit, "buckets.size"), (BucketedSync, "gradient.scale"),
        (SendsAllInFinish, "overlap.left-late"), (Naive, "buckets.count"), (NaiveAfterBackward, "buckets.count"), (NeverWaits, "overlap.never-waited"),
        (DividesByThree, "any-n"), (LooksAtTheSecondBucket, "one-bucket"), (SendsTheFirstTwice, "buckets.bytes"),
        (RaisesInTheHook, "raised"),
        (OneRankSendsLess, "mismatch"),
        (NeverResets, "second-step"), (SendsNothing, "buckets.none"), (AroundTheAxis, "buckets.only-axis"), (PacksInAnotherOrder, "gradient.value"),
    ],
}  # fmt: skip
