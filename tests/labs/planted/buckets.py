"""Right answers to lab 05, exercise 3: gradients averaged in buckets."""

from __future__ import annotations

import torch


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


RIGHT = [Right, RightDividesBefore, right_with_flat_views]
