"""Right answers to lab 03, exercise 1: gradients of uneven micro-batches added up."""

from __future__ import annotations

import torch
import torch.utils.checkpoint

IGNORED = -100


def accumulate(model, optimizer, micro_batches, group):
    """The lab's own frame, completed."""
    losses, loss_so_far, tokens = [], 0.0, 0
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        loss_sum, count = model(inputs, targets)
        loss_sum.backward()
        loss_so_far, tokens = loss_so_far + loss_sum.item(), tokens + count.item()
        if number % group == 0 or number == len(micro_batches):
            for parameter in model.parameters():
                parameter.grad /= tokens
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss_so_far / tokens)
            loss_so_far, tokens = 0.0, 0
    return losses


def groups_of(micro_batches, group):
    return [micro_batches[i : i + group] for i in range(0, len(micro_batches), group)]


def accumulate_looks_ahead(model, optimizer, micro_batches, group):
    """Counts the group's tokens before its first forward pass, as the course's engine does."""
    losses = []
    for members in groups_of(micro_batches, group):
        optimizer.zero_grad(set_to_none=False)
        tokens, total = sum((targets != IGNORED).sum() for _, targets in members), torch.zeros(())
        for inputs, targets in members:
            loss = model(inputs, targets)[0] / tokens
            loss.backward()
            total += loss.detach()
        optimizer.step()
        losses.append(total)
    return losses


def accumulate_weights_means(model, optimizer, micro_batches, group):
    """Each micro-batch's mean, weighted by its share of the group's tokens; those without any are left out of the division."""
    losses = []
    for members in groups_of(micro_batches, group):
        counts = [int((targets != IGNORED).sum()) for _, targets in members]
        shares = [count / sum(counts) for count in counts]
        loss_of_group = 0.0
        for (inputs, targets), share, count in zip(members, shares, counts, strict=True):
            loss_sum, _ = model(inputs, targets)
            weighted = share * loss_sum / max(count, 1)
            weighted.backward()
            loss_of_group += weighted.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss_of_group)
    return losses


def accumulate_in_buffers(model, optimizer, micro_batches, group):
    """Gradients are added up outside of .grad, which costs their size once more."""
    losses, parameters = [], list(model.parameters())
    for members in groups_of(micro_batches, group):
        sums, total, tokens = [torch.zeros_like(p) for p in parameters], 0.0, 0
        for inputs, targets in members:
            loss_sum, count = model(inputs, targets)
            for buffer, gradient in zip(sums, torch.autograd.grad(loss_sum, parameters), strict=True):
                buffer += gradient
            total, tokens = total + loss_sum.item(), tokens + count.item()
        for parameter, buffer in zip(parameters, sums, strict=True):
            parameter.grad = buffer.div_(tokens)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total / tokens)
    return losses


RIGHT = [accumulate, accumulate_looks_ahead, accumulate_weights_means, accumulate_in_buffers]
