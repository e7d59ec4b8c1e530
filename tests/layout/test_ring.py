"""The ring's schedule, carried out on integers: every rank ends with the sums, by messages that a
ring can carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_utils.layout.ring import Hop, ring_all_gather, ring_all_reduce, ring_reduce_scatter
from lab_utils.layout.wire import wire_bytes


def carry_out(steps: list[list[Hop]], have: list[list[set[int]]]) -> None:
    """`have[rank][chunk]`: whose contributions are in there. A step's messages leave together, with
    what was there before it."""
    for step in steps:
        messages = [(hop, set(have[hop.sender][hop.chunk])) for hop in step]
        for hop, content in messages:
            here = have[hop.receiver][hop.chunk]
            if hop.action == "add":
                assert not here & content  # nobody is counted twice
                here |= content
            else:
                have[hop.receiver][hop.chunk] = content


def own_contributions(n: int) -> list[list[set[int]]]:
    return [[{rank} for _ in range(n)] for rank in range(n)]


@pytest.mark.parametrize("n", range(1, 10))
def test_all_reduce(n):
    have = own_contributions(n)
    carry_out(ring_all_reduce(n), have)
    assert all(chunk == set(range(n)) for rank in have for chunk in rank)


@pytest.mark.parametrize("n", range(1, 10))
def test_reduce_scatter_leaves_rank_r_with_chunk_r_and_all_gather_spreads_it(n):
    have = own_contributions(n)
    carry_out(ring_reduce_scatter(n), have)
    assert all(have[rank][rank] == set(range(n)) for rank in range(n))
    spread = [[{rank} if chunk == rank else set() for chunk in range(n)] for rank in range(n)]
    carry_out(ring_all_gather(n), spread)
    assert all(spread[rank] == [{chunk} for chunk in range(n)] for rank in range(n))


@pytest.mark.parametrize("n", range(1, 10))
def test_every_step_is_one_message_from_each_rank_to_its_neighbour(n):
    steps = ring_all_reduce(n)
    assert len(steps) == 2 * (n - 1)
    for step in steps:
        assert [hop.sender for hop in step] == list(range(n))
        assert all(hop.receiver == (hop.sender + 1) % n for hop in step)
        assert len({hop.chunk for hop in step}) == n


@given(st.integers(1, 64), st.integers(1, 10**6))
def test_wire_bytes_are_those_of_the_schedule(n, chunk_bytes):
    payload = n * chunk_bytes
    for op, schedule in (
        ("all_reduce", ring_all_reduce),
        ("reduce_scatter", ring_reduce_scatter),
        ("all_gather", ring_all_gather),
    ):
        sent = (
            len(schedule(n)) * chunk_bytes
            if n < 10
            else {"all_reduce": 2}.get(op, 1) * (n - 1) * chunk_bytes
        )
        assert wire_bytes(op, payload, n) == sent
    assert wire_bytes("send", payload, n) == (payload if n > 1 else 0)
    # it leaves N − 1 times, from N ranks
    assert n * wire_bytes("broadcast", payload, n) == (n - 1) * payload


def test_wire_bytes_of_what_does_not_divide_and_of_an_unknown_op():
    assert wire_bytes("all_reduce", 10, 3) == 13  # 13.33
    # exact where floats are not: …001.5
    assert wire_bytes("all_reduce", 10**18 + 1, 4) == 1_500_000_000_000_000_002
    with pytest.raises(KeyError):
        wire_bytes("gossip", 1, 2)
