"""Lab 05's cases show what they are there for, and its exercises do not lean on each other."""

from __future__ import annotations

from random import Random

import pytest
from answers import define, planted

from lab_utils.course import check
from lab_utils.course.checks.lab05.bucket_ranks import Case, Model, draw


@pytest.mark.parametrize("seed", range(12))
def test_who_sends_buckets_as_they_get_full_sends_others_where_a_branch_stays_out(seed):
    """Or the order of buckets would not be judged at all."""
    cases = [case for case in draw(Random(seed)) if case.unused == "one rank"]
    assert {case.ranks for case in cases} == {3, 4}
    for case in cases:
        assert full_in_order(case, with_branch=True) != full_in_order(case, with_branch=False)


def full_in_order(case: Case, with_branch: bool) -> list[int]:
    """The numbers of the buckets in the order in which they are full; those that never are leave at
    the end."""
    model = Model(case)
    buckets, free = [], 0
    for parameter in reversed(list(model.parameters())):
        needed = parameter.numel() * parameter.element_size()
        if needed > free or not buckets:
            buckets.append(set())
            free = case.bucket_bytes
        buckets[-1].add(parameter)
        free -= needed
    left, missing = [], [set(bucket) for bucket in buckets]

    def came(parameter):
        for number, bucket in enumerate(missing):
            bucket.discard(parameter)
            if not bucket and number not in left:
                left.append(number)

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(came)
    first = next(model.parameters())
    model(first.new_ones(2, case.widths[0]), with_branch).sum().backward()
    return left + [number for number in range(len(buckets)) if number not in left]


@pytest.mark.parametrize("own", ["", "def chunk_bounds(numel, n):\n    return [(0, numel)] * n\n"])
def test_a_right_ring_passes_beside_a_wrong_chunk_bounds_or_none(own):
    [ring] = [one for one in planted("05_data_parallelism") if one.title == "to the left"]
    answer = define(own + ring.cell, "ring_all_reduce", "<ring>", ring.given)
    assert check.ring_all_reduce(answer).passed
