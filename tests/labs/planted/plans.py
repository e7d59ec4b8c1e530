"""Answers to lab 03, exercise 3: right ones, and wrong ones with the criterion that they must fail on."""

from __future__ import annotations

import math

import torch
import torch.utils.checkpoint


def every_plan(begin, n):
    if begin == n:
        yield []
        return
    yield from every_plan(begin + 1, n)
    for end in range(begin + 1, n + 1):
        yield from ([(begin, end), *rest] for rest in every_plan(end, n))


def peak(layers, plan):
    ends, at, held, most = dict(plan), 0, 0, 0
    while at < len(layers):
        end = ends.get(at, at + 1)
        whole = sum(layer.saved_bytes for layer in layers[at:end])
        most = max(most, held + whole)
        held += layers[at].input_bytes if at in ends else whole
        at = end
    return most


def work(layers, plan):
    return sum(layer.flops for begin, end in plan for layer in layers[begin:end])


def best_by(measure, layers, budget, cost=work):
    fitting = [plan for plan in every_plan(0, len(layers)) if measure(layers, plan) <= budget]
    return min(fitting, key=lambda plan: cost(layers, plan), default=None)


def plan_by_trying_all(layers, budget):
    return best_by(peak, layers, budget)


def plan_by_a_frontier(layers, budget):
    """Front to back: of the ways to come to a layer, those are kept that no other beats in both bytes held and work."""
    ways = [[] for _ in range(len(layers) + 1)]
    ways[0] = [(0, 0, [])]
    for at, layer in enumerate(layers):
        undominated, least = [], None
        for held, flops, plan in sorted(ways[at], key=lambda way: way[:2]):
            if least is None or flops < least:
                undominated.append((held, flops, plan))
                least = flops
        for held, flops, plan in undominated:
            if held + layer.saved_bytes <= budget:
                ways[at + 1].append((held + layer.saved_bytes, flops, plan))
            for end in range(at + 1, len(layers) + 1):
                if held + sum(x.saved_bytes for x in layers[at:end]) > budget:
                    break
                ways[end].append((held + layer.input_bytes, flops + sum(x.flops for x in layers[at:end]), [*plan, (at, end)]))
    return min(ways[-1], key=lambda way: way[1])[2] if ways[-1] else None


def plan_by_recursion(layers, budget):
    """Depth first, giving up a branch as soon as it is over the budget or costs more than the best so far; tuples of tuples."""
    best = [float("inf"), None]

    def go(at, held, flops, plan):
        if held > budget or flops >= best[0]:
            return
        if at == len(layers):
            best[:] = flops, plan
            return
        go(at + 1, held + layers[at].saved_bytes, flops, plan)
        whole = more = 0
        for end in range(at, len(layers)):
            whole, more = whole + layers[end].saved_bytes, more + layers[end].flops
            if held + whole <= budget:
                go(end + 1, held + layers[at].input_bytes, flops + more, (*plan, (at, end + 1)))

    go(0, 0, 0, ())
    return best[1]


def one_segment(layers, budget):
    return [(0, len(layers))]


def keep_everything(layers, budget):
    return []


def each_by_itself(layers, budget):
    return [(i, i + 1) for i in range(len(layers))]


def square_root(layers, budget):
    size = math.isqrt(len(layers))
    return [(i, min(i + size, len(layers))) for i in range(0, len(layers), size)]


def end_of_forward(layers, plan):
    ends, at, held = dict(plan), 0, 0
    while at < len(layers):
        held += layers[at].input_bytes if at in ends else layers[at].saved_bytes
        at = ends.get(at, at + 1)
    return held


def only_the_end_of_forward(layers, budget):
    """Counts what is kept when forward is over, and forgets that it all comes back."""
    return best_by(end_of_forward, layers, budget)


def forgets_what_is_held_before(layers, budget):
    """The second run of a segment, as if nothing else were there."""
    def alone(layers, plan):
        return max(end_of_forward(layers, plan), *(sum(x.saved_bytes for x in layers[a:b]) for a, b in [*plan, (0, 0)]))

    return best_by(alone, layers, budget)


def forgets_the_inputs(layers, budget):
    """As if a segment kept nothing at all."""
    return best_by(lambda layers, plan: peak([x._replace(input_bytes=0) for x in layers], plan), layers, budget)


def counts_inputs_twice(layers, budget):
    """While a segment runs again, its input is counted, and once more in what its layers save."""
    def too_much(layers, plan):
        return max(peak(layers, plan), *(end_of_forward(layers, [*plan[:i], (a, b)]) - sum(x.saved_bytes for x in layers[b:])
                                         + sum(x.saved_bytes for x in layers[a:b]) for i, (a, b) in enumerate(plan)), 0)

    return best_by(too_much, layers, budget)


def fewest_layers(layers, budget):
    return best_by(peak, layers, budget, lambda layers, plan: sum(end - begin for begin, end in plan))


def fewest_segments(layers, budget):
    return best_by(peak, layers, budget, lambda layers, plan: len(plan))


def smallest_peak(layers, budget):
    return min(every_plan(0, len(layers)), key=lambda plan: peak(layers, plan))


def largest_first(layers, budget):
    """Greedy: recompute the layers that save most, one by one, until it fits."""
    plan = []
    for _, i in sorted((layer.input_bytes - layer.saved_bytes, i) for i, layer in enumerate(layers)):
        if peak(layers, plan) <= budget:
            break
        plan = sorted([*plan, (i, i + 1)])
    return plan


def cheapest_first(layers, budget):
    plan = []
    for i in sorted(range(len(layers)), key=lambda i: layers[i].flops / (layers[i].saved_bytes - layers[i].input_bytes)):
        if peak(layers, plan) <= budget:
            break
        plan = sorted([*plan, (i, i + 1)])
    return plan


def strictly_below(layers, budget):
    """Takes exactly the budget for too much."""
    return plan_by_trying_all(layers, budget - 1)


def always_something(layers, budget):
    """Never returns []."""
    fitting = [plan for plan in every_plan(0, len(layers)) if plan and peak(layers, plan) <= budget]
    return min(fitting, key=lambda plan: work(layers, plan), default=None)


def the_least_bad(layers, budget):
    return plan_by_trying_all(layers, budget) or (smallest_peak(layers, budget) if sum(x.saved_bytes for x in layers) > budget else [])


def raises_when_nothing_fits(layers, budget):
    plan = plan_by_trying_all(layers, budget)
    if plan is None:
        raise ValueError("nothing fits")
    return plan


def gives_up(layers, budget):
    return None


def layer_numbers(layers, budget):
    return [i for begin, end in plan_by_trying_all(layers, budget) or [] for i in range(begin, end)]


def ends_included(layers, budget):
    return [(begin, end - 1) for begin, end in plan_by_trying_all(layers, budget) or []]


def overlapping(layers, budget):
    return [(0, 3), (2, 5)]


def beyond_the_last(layers, budget):
    return [(0, len(layers) + 1)]


def as_a_tensor(layers, budget):
    return torch.tensor(plan_by_trying_all(layers, budget))


def takes_layers_for_dicts(layers, budget):
    return [(0, 1)] if layers[0]["saved_bytes"] > budget else []


def searches_for_ever(layers, budget):
    while peak(layers, []) > 0:
        pass


RIGHT = [plan_by_trying_all, plan_by_a_frontier, plan_by_recursion]
WRONG = [
    (one_segment, "peak.backward"), (keep_everything, "peak.forward"), (each_by_itself, "flops"), (square_root, "flops"),
    (only_the_end_of_forward, "peak.backward"), (forgets_what_is_held_before, "peak.backward"), (forgets_the_inputs, "peak.forward"),
    (fewest_layers, "flops"), (fewest_segments, "flops"), (smallest_peak, "flops"), (largest_first, "flops"), (cheapest_first, "flops"),
    (strictly_below, "gave-up"), (always_something, "no-need"), (the_least_bad, "nothing-fits"), (raises_when_nothing_fits, "nothing-fits"),
    (gives_up, "gave-up"), (counts_inputs_twice, "flops"), (layer_numbers, "plan.form"), (ends_included, "plan.form"), (overlapping, "plan.form"),
    (beyond_the_last, "plan.form"), (as_a_tensor, "plan.form"), (takes_layers_for_dicts, "raised"), (searches_for_ever, "hung"),
]  # fmt: skip
