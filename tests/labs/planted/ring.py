"""Answers to lab 05, exercise 2: right ones, and wrong ones with the criterion that they must fail on; most use a global `chunk_bounds`."""

from __future__ import annotations

import torch

from .chunks import chunk_bounds


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


RIGHT = [ring_right, ring_left, ring_other_phase, ring_with_copied_slices]
WRONG = [
    (ring_gather_and_sum, "ring.neighbours"), (ring_whole_buffer, "ring.bytes"), (ring_off_by_one, "value"), (ring_second_half_off_by_one, "value"),
    (ring_with_torch_chunk, "uneven"), (ring_receives_into_the_wrong_length, "uneven"), (ring_skips_a_step_when_empty, "few"),
    (ring_reduce_scatter_only, "ring.half"), (ring_always_adds, "combine"), (ring_returns_a_new_tensor, "ring.in-place"),
    (ring_gives_new_chunks_a_name, "ring.in-place"), (ring_pads, "ring.bytes"), (ring_only_for_two, "value"), (ring_by_doubling, "ring.neighbours"),
    (ring_with_a_bit_mask, "any-n"), (ring_around_a_hub, "ring.neighbours"), (ring_calls_all_reduce, "ring.only-exchange"),
    (ring_goes_around_the_axis, "ring.only-exchange"), (ring_one_rank_stops_early, "hung"),
]  # fmt: skip
