"""Wrong answers to lab 03, exercise 1, each with the criterion that it must fail on."""

from __future__ import annotations

import math

import torch
import torch.utils.checkpoint

from .accumulation import IGNORED, accumulate, groups_of


def means_of_means(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        total = 0.0
        for inputs, targets in members:
            loss_sum, count = model(inputs, targets)
            loss = loss_sum / count / len(members)
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def means_of_means_by_group(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        total = 0.0
        for inputs, targets in members:
            loss_sum, count = model(inputs, targets)
            (loss_sum / count / group).backward()
            total += (loss_sum / count / group).item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def weighted_but_divides_by_zero(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        counts = [(targets != IGNORED).sum() for _, targets in members]
        total = 0.0
        for (inputs, targets), count in zip(members, counts, strict=True):
            weighted = count / sum(counts) * (model(inputs, targets)[0] / count)
            weighted.backward()
            total += weighted.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def drops_the_last_group(model, optimizer, micro_batches, group):
    return accumulate(model, optimizer, micro_batches[: len(micro_batches) // group * group], group)


def steps_only_when_full(model, optimizer, micro_batches, group):
    """The last partial group is computed, and never steps."""
    losses, loss_so_far, tokens = [], 0.0, 0
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        loss_sum, count = model(inputs, targets)
        loss_sum.backward()
        loss_so_far, tokens = loss_so_far + loss_sum.item(), tokens + count.item()
        if number % group == 0:
            for parameter in model.parameters():
                parameter.grad /= tokens
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss_so_far / tokens)
            loss_so_far, tokens = 0.0, 0
    return losses


def steps_every_time(model, optimizer, micro_batches, group):
    return accumulate(model, optimizer, micro_batches, 1)


def one_step_for_all(model, optimizer, micro_batches, group):
    return accumulate(model, optimizer, micro_batches, len(micro_batches))


def without_zero_grad(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        tokens, total = sum((targets != IGNORED).sum() for _, targets in members), 0.0
        for inputs, targets in members:
            loss = model(inputs, targets)[0] / tokens
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


def without_zero_grad_divides_again(model, optimizer, micro_batches, group):
    """The frame without its zero_grad: what is left is divided by the next group's tokens, too."""
    keep, optimizer.zero_grad = optimizer.zero_grad, lambda: None
    try:
        return accumulate(model, optimizer, micro_batches, group)
    finally:
        optimizer.zero_grad = keep


def zero_grad_between(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        tokens, total = sum((targets != IGNORED).sum() for _, targets in members), 0.0
        for inputs, targets in members:
            optimizer.zero_grad()
            loss = model(inputs, targets)[0] / tokens
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


def zero_grad_before_the_step(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        tokens, total = sum((targets != IGNORED).sum() for _, targets in members), 0.0
        for inputs, targets in members:
            loss = model(inputs, targets)[0] / tokens
            loss.backward()
            total += loss.item()
        optimizer.zero_grad()
        optimizer.step()
        losses.append(total)
    return losses


def never_divides(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        total, tokens = 0.0, 0
        for inputs, targets in members:
            loss_sum, count = model(inputs, targets)
            loss_sum.backward()
            total, tokens = total + loss_sum.item(), tokens + count.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total / tokens)
    return losses


def divides_by_the_running_count(model, optimizer, micro_batches, group):
    """Divides by all tokens since the beginning of training."""
    losses, seen = [], 0
    for members in groups_of(micro_batches, group):
        total, tokens = 0.0, 0
        for inputs, targets in members:
            loss_sum, count = model(inputs, targets)
            loss_sum.backward()
            total, tokens, seen = total + loss_sum.item(), tokens + count.item(), seen + count.item()
        for parameter in model.parameters():
            parameter.grad /= seen
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total / tokens)
    return losses


def counts_the_ignored(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        total, positions = 0.0, sum(targets.numel() for _, targets in members)
        for inputs, targets in members:
            loss = model(inputs, targets)[0] / positions
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def one_big_batch(model, optimizer, micro_batches, group):
    """Right numbers, and the memory that accumulation is there to save."""
    return accumulate(model, optimizer, [tuple(map(torch.cat, zip(*members, strict=True))) for members in groups_of(micro_batches, group)], 1)


def one_backward_for_the_group(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        total, tokens = zip(*[model(*micro_batch) for micro_batch in members], strict=True)
        loss = sum(total) / sum(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def retains_the_graphs(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        tokens = sum((targets != IGNORED).sum() for _, targets in members)
        kept = []
        for inputs, targets in members:
            kept.append(model(inputs, targets)[0] / tokens)
            kept[-1].backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sum(kept).item())
    return losses


def runs_twice_to_count(model, optimizer, micro_batches, group):
    losses = []
    for members in groups_of(micro_batches, group):
        with torch.no_grad():
            tokens = sum(model(*micro_batch)[1] for micro_batch in members)
        total = 0.0
        for micro_batch in members:
            loss = model(*micro_batch)[0] / tokens
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def returns_the_last_losses(model, optimizer, micro_batches, group):
    accumulate(model, optimizer, micro_batches, group)
    return [0.0] * math.ceil(len(micro_batches) / group)


def returns_nothing(model, optimizer, micro_batches, group):
    accumulate(model, optimizer, micro_batches, group)


def divides_a_partial_group_by_the_full_one(model, optimizer, micro_batches, group):
    """Assumes that a group is full when there is only one."""
    if len(micro_batches) < group:
        return [loss / 2 for loss in accumulate(model, optimizer, micro_batches, group)]
    return accumulate(model, optimizer, micro_batches, group)


def does_nothing(model, optimizer, micro_batches, group):
    return []


def indexes_past_the_end(model, optimizer, micro_batches, group):
    for number in range(len(micro_batches) + 1):
        model(*micro_batches[number])


def loops_for_ever(model, optimizer, micro_batches, group):
    while True:
        pass


WRONG = [
    (means_of_means, "gradient.mean-of-means"), (means_of_means_by_group, "gradient.mean-of-means"), (weighted_but_divides_by_zero, "empty"),
    (drops_the_last_group, "steps.last-group"), (steps_only_when_full, "steps.last-group"), (steps_every_time, "steps.every"), (one_step_for_all, "steps"),
    (does_nothing, "steps"), (without_zero_grad, "gradient.left-over"), (without_zero_grad_divides_again, "gradient.left-over"),
    (zero_grad_between, "gradient.last-only"), (zero_grad_before_the_step, "gradient.missing"), (never_divides, "gradient.scale"),
    (divides_by_the_running_count, "gradient.scale"), (counts_the_ignored, "gradient.ignored-counted"), (one_big_batch, "passes"),
    (one_backward_for_the_group, "memory"), (retains_the_graphs, "memory"), (runs_twice_to_count, "passes"), (returns_the_last_losses, "losses"),
    (returns_nothing, "losses"), (divides_a_partial_group_by_the_full_one, "any-group"), (indexes_past_the_end, "raised"), (loops_for_ever, "hung"),
]  # fmt: skip
