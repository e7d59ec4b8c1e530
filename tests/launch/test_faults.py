"""Every fault, for real: one error, the right rank and cause, soon, and no process left.

In `make test` every fault on two and on four ranks, by the first rank and by the last; in `make
test-all` in all combinations.
"""

import ctypes
import os
import time

import pytest
import torch
import torch.distributed as dist
from faults import FAULTS, TIMEOUT_S, processes_left, provoke
from pairs import to_run
from quiet import on_time

from lab_utils.i18n import set_language
from lab_utils.launch import LaunchError, launch

CASES = [
    {"fault": fault, "world": world, "last": last}
    for fault in FAULTS
    for world in (2, 4)
    for last in (False, True)
]


@pytest.mark.parametrize(
    "case", to_run(CASES, dict), ids=lambda case: " ".join(map(str, case.values()))
)
def test_fault_table(case):
    fault, world = case["fault"], case["world"]
    culprit = world - 1 if case["last"] else 0
    outcome = provoke(fault, culprit, world)
    assert outcome.left == []
    if fault == "interrupt":
        assert outcome.said == "KeyboardInterrupt"
        assert launch(dist.get_rank, world) == list(range(world)), "the next launch works at once"
    else:
        _check_what_was_said(fault, culprit, world, outcome)
    on_time(outcome.seconds < 1, f"{fault}: {outcome.seconds:.2f} s to the error, of 1 s")


def _check_what_was_said(fault, culprit, world, outcome):
    error = outcome.error
    assert error.cause == FAULTS[fault][1]
    # one against one: both are named, with what each did
    if error.cause == "mismatch" and world == 2:
        assert error.ranks == (0, 1)
        assert "rank 0 called" in outcome.said
        assert "rank 1 called" in outcome.said
    else:
        assert error.ranks == (error.rank,) == (culprit,)
        assert outcome.said.startswith(f"rank {culprit} ")
    if fault == "raise":
        assert 'raise ValueError("the loss is not a number")' in error.traceback
    if fault == "hang":
        assert "time.sleep(3600)" in error.traceback
    if fault == "early return":
        assert "waited in all_reduce(float32 [4], sum), which rank" in outcome.said


def fails(fn, world=2, timeout=TIMEOUT_S):
    """The error of launch(fn), and the seconds that it took."""
    begun = time.time()
    with pytest.raises(LaunchError) as caught:
        launch(fn, world, timeout=timeout, quiet=True)
    assert processes_left() == []
    return caught.value, time.time() - begun


def test_a_silent_mismatch_is_found_though_all_return():
    def sum_or_max():
        dist.all_reduce(
            torch.ones(2), op=dist.ReduceOp.MAX if dist.get_rank() else dist.ReduceOp.SUM
        )

    error, _ = fails(sum_or_max)
    assert error.cause == "mismatch"
    assert "sum) where rank 1 called all_reduce(float32 [2], max)" in str(error)


def test_message_sizes_must_agree():
    def five_for_four():
        if dist.get_rank():
            dist.send(torch.ones(4), 0)
        else:
            dist.recv(torch.ones(5), 1)

    error, _ = fails(five_for_four)
    assert (error.cause, error.ranks) == ("mismatch", (0, 1))
    assert "message no. 1 from rank 1 to rank 0" in str(error)


def test_ranks_that_wait_for_each_other():
    def all_receive_first():
        rank, world = dist.get_rank(), dist.get_world_size()
        x = torch.ones(4)
        dist.recv(x, (rank - 1) % world)
        dist.send(x, (rank + 1) % world)

    error, seconds = fails(all_receive_first, world=3, timeout=30)
    assert (error.cause, error.ranks) == ("hung", (0, 1, 2))
    assert "dist.recv(x" in error.traceback
    on_time(
        seconds < 3,
        f"{seconds:.1f} s: a circle is certain, nobody has to wait for the timeout of 30 s",
    )


def test_the_culprit_is_found_behind_the_waiting():
    def chain():
        if dist.get_rank() == 2:
            time.sleep(3600)
        x = torch.ones(1)
        dist.recv(x, dist.get_rank() + 1)
        dist.send(x, dist.get_rank() - 1)

    error, _ = fails(chain, world=3)
    assert (error.cause, error.ranks) == ("hung", (2,)), (
        "rank 0 waits for rank 1, who only waits for rank 2"
    )


def test_mismatch_in_a_subgroup():
    def in_pairs():
        group = dist.new_group([1, 2])
        if dist.get_rank() in (1, 2):
            dist.all_reduce(torch.ones(dist.get_rank()), group=group)
        dist.barrier()

    error, _ = fails(in_pairs, world=3)
    assert (error.cause, error.ranks) == ("mismatch", (1, 2))
    assert "process group of ranks 1, 2" in str(error)


def test_a_group_that_one_rank_never_made():
    def forgotten():
        if dist.get_rank() == 0:
            dist.new_group([0, 1])
        else:
            time.sleep(3600)

    error, _ = fails(forgotten)
    assert (error.cause, error.ranks) == ("hung", (1,))
    assert "new_group" in str(error)


def test_groups_made_by_their_members_only():
    """Each rank makes its own pair: torch counts both as its first group, and connects wrong
    ranks."""

    def only_mine():
        rank = dist.get_rank()
        dist.new_group([rank % 2, rank % 2 + 2])
        time.sleep(3600)

    error, seconds = fails(only_mine, world=4)
    assert error.cause == "mismatch"
    assert "new_group([0, 2]) where ranks 1 and 3 called new_group([1, 3])" in str(error)
    on_time(seconds < TIMEOUT_S, f"{seconds:.1f} s")


def test_a_wait_without_an_end_where_nobody_is_missing():
    def from_nobody():
        rank = dist.get_rank()
        if rank == 0:
            dist.recv(torch.ones(1))  # from whoever comes
        else:
            dist.barrier()

    error, seconds = fails(from_nobody)
    assert error.cause == "hung"
    on_time(seconds < TIMEOUT_S + 3, f"{seconds:.1f} s")


def test_running_on_alone():
    error, seconds = fails(lambda: dist.get_rank() and time.sleep(3600))
    assert (error.cause, error.ranks) == ("hung", (1,))
    on_time(seconds < TIMEOUT_S + 1.5, f"{seconds:.1f} s with a timeout of {TIMEOUT_S} s")


def test_unequal_but_right():
    def every_rank_differs():
        rank = dist.get_rank()
        dist.reduce_scatter(torch.zeros(2 + rank), [torch.ones(2), torch.ones(3)])
        splits = [1, 2] if rank == 0 else [2, 2]
        dist.all_to_all_single(torch.zeros(3 + rank), torch.ones(3 + rank), splits, splits)
        dist.all_gather_object([None, None], "x" * 1000**rank)
        dist.gather(torch.ones(2), [torch.zeros(2), torch.zeros(2)] if rank == 0 else None, dst=0)
        dist.scatter(torch.zeros(2), [torch.zeros(2), torch.zeros(2)] if rank == 1 else None, src=1)
        dist.new_group([rank], use_local_synchronization=True)
        if rank == 0:
            dist.send(torch.ones(2, 3), 1)
            dist.send(torch.ones(5), 1)
        else:
            dist.recv(torch.ones(6), 0)
            dist.recv(torch.ones(5))  # from whoever comes
        return True

    assert launch(every_rank_differs, 2, timeout=TIMEOUT_S, quiet=True) == [True, True]


def test_overlapping_groups_are_kept_apart():
    def neighbours():
        groups = [dist.new_group([i, i + 1]) for i in range(2)]
        for i in range(2):
            if dist.get_rank() in (i, i + 1):
                dist.broadcast(torch.ones(2), src=i, group=groups[i])
        return True

    assert launch(neighbours, 3, timeout=TIMEOUT_S) == [True] * 3


def test_async_calls_count_as_called():
    def overlapped():
        early, late = dist.get_rank() == 0, dist.get_rank() == 1
        time.sleep(late * (TIMEOUT_S + 0.5))
        works = [dist.all_reduce(torch.ones(2), async_op=True) for _ in range(5)]
        # called long ago, but nobody is held up in it
        time.sleep(early * (TIMEOUT_S + 0.5))
        for work in works:
            work.wait()
        return True

    assert launch(overlapped, 2, timeout=TIMEOUT_S) == [True, True]


def test_what_cpp_calls_by_itself_falls_back_on_its_timeout():
    def ddp(late):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        for step in range(2):
            if step and dist.get_rank() == late:
                time.sleep(3600)
            model(torch.ones(1, 2)).sum().backward()

    with pytest.raises(LaunchError) as caught:
        launch(ddp, 2, 1, timeout=0.5, quiet=True)
    assert (caught.value.cause, caught.value.ranks) == ("hung", (1,))
    assert "time.sleep(3600)" in caught.value.traceback


def test_death_inside_ddp_is_named_not_its_echo():
    def ddp():
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        if dist.get_rank() == 0:
            os._exit(5)
        model(torch.ones(1, 2)).sum().backward()

    error, seconds = fails(ddp)
    assert (error.cause, error.ranks) == ("exited", (0,))
    on_time(seconds < 2, f"{seconds:.1f} s, of 2 s")


def test_native_crash_shows_its_line():
    def crash():
        dist.barrier()
        if dist.get_rank() == 1:
            ctypes.string_at(0)
        dist.barrier()

    error, _ = fails(crash)
    assert (error.cause, error.ranks) == ("killed", (1,))
    assert "SIGSEGV" in str(error)
    assert "ctypes.string_at(0)" in error.traceback


def test_in_the_readers_language():
    set_language("zh")
    try:
        outcome = provoke("early return", 1, 2)
    finally:
        set_language("en")
    assert outcome.said.startswith(
        "rank 1 已经返回，而 rank 0 还在 all_reduce(float32 [4], sum) 中等它"
    )
