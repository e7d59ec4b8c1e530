"""Answers to lab 05, exercise 1: right ones, and wrong ones with the criterion that they must fail on."""

from __future__ import annotations

import torch


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


RIGHT = [chunk_bounds, chunks_by_proportion, chunks_by_torch_tensor_split]
WRONG = [
    (chunks_by_torch_chunk, "chunks.count"), (chunks_without_the_remainder, "chunks.cover"), (chunks_last_takes_the_rest, "chunks.balance"),
    (chunks_rounded_up, "chunks.cover"), (chunks_of_floats, "chunks.type"), (chunks_until_used_up, "chunks.count"), (chunks_divides_by_the_rest, "raised"),
]  # fmt: skip
