"""Which rank gets which sequence: together all of them, each once an epoch, and the same again
after a resume."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab_utils.config import TrainConfig
from lab_utils.data.loader import Loader
from lab_utils.data.windows import Windows, open_windows


@pytest.fixture
def text(tmp_path):
    """A text of 101 numbered lines of 8 characters, so that a window says where it comes from."""
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{i:07d}\n" for i in range(101)))
    return str(path)


def loaders_of(config: TrainConfig, **kwargs) -> list[Loader]:
    return [Loader(config, rank, **kwargs) for rank in range(config.parallel.dp)]


def sequences(batch) -> torch.Tensor:
    return torch.cat([micro.tokens for micro in batch.micro_batches])


@pytest.mark.parametrize("dp", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_ranks_together_have_the_one_rank_batch_in_order(text, dp, accumulate):
    config = TrainConfig.of("tiny", seq=8, corpus=text, global_batch=24, steps=12)
    share = config.replace(dp=dp, micro_batch=24 // dp // accumulate)
    whole, parts = Loader(config), loaders_of(share)
    for step in (0, 1, 5, 11):  # 5 is past the first epoch
        batches = [part.batch(step) for part in parts]
        assert torch.equal(torch.cat([sequences(b) for b in batches]), sequences(whole.batch(step)))
        assert all(len(b.micro_batches) == accumulate for b in batches)
        assert {b.global_tokens for b in batches} == {24 * 8}


def test_targets_are_the_next_tokens(text):
    for micro in (
        Loader(TrainConfig.of("tiny", seq=8, corpus=text, global_batch=24, micro_batch=8))
        .batch(0)
        .micro_batches
    ):
        assert micro.tokens.shape == micro.targets.shape == (8, 8)
        assert micro.tokens.dtype == torch.int64
        assert torch.equal(micro.tokens[:, 1:], micro.targets[:, :-1])
        assert (micro.tokens[:, 7] == ord("\n")).all()  # windows are cut where they should be
        # and their last target is the next window's first token
        assert (micro.targets[:, 7] == ord("0")).all()


def test_an_epoch_is_every_window_once_and_each_epoch_another_order(text):
    windows = open_windows(TrainConfig.of("tiny", seq=8, corpus=text))
    assert windows.count == 100
    epochs = [[windows[e * 100 + i].tobytes() for i in range(100)] for e in range(3)]
    assert all(len(set(epoch)) == 100 for epoch in epochs)
    assert set(epochs[0]) == set(epochs[1]) == set(epochs[2])
    assert len({tuple(epoch) for epoch in epochs}) == 3
    other_seed = Windows(windows.tokens, 8, seed=1)
    assert [other_seed[i].tobytes() for i in range(100)] != epochs[0]


@settings(deadline=None, max_examples=60)
@given(
    length=st.integers(2, 200),
    seq=st.integers(1, 9),
    seed=st.integers(0, 5),
    number=st.integers(0, 1000),
)
def test_windows_lie_inside_the_text(length, seq, seed, number):
    if length <= seq:
        return
    tokens = np.arange(length)
    windows = Windows(tokens, seq, seed)
    window = windows[number]
    assert np.array_equal(window, np.arange(window[0], window[0] + seq + 1))
    assert window[0] % seq == 0
    assert windows.count * seq + 1 <= length < (windows.count + 1) * seq + 1


def test_it_resumes_where_it_stopped(text):
    config = TrainConfig.of("tiny", seq=8, corpus=text, global_batch=24, steps=9)
    straight = [sequences(batch) for batch in Loader(config)]
    first = Loader(config)
    seen = []
    for batch in first:
        seen.append(sequences(batch))
        if batch.step == 3:
            break
    second = Loader(config, **first.state())
    seen += [sequences(batch) for batch in second]
    assert len(seen) == len(straight) == 9
    assert all(torch.equal(a, b) for a, b in zip(seen, straight, strict=True))
    assert second.state() == {"first_step": 9}
    assert list(Loader(config, **second.state())) == []


def loader_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "loader"]


@pytest.mark.parametrize("seen", [0, 1, 4])
def test_the_background_thread_ends_when_iteration_is_left_early(text, seen):
    before = len(loader_threads())
    batches = iter(Loader(TrainConfig.of("tiny", seq=8, corpus=text, steps=1000)))
    for _ in range(seen):
        next(batches)
    if seen == 1:
        time.sleep(0.2)  # the queue is full and the thread waits to put
    batches.close()
    assert len(loader_threads()) == before


def test_the_background_thread_ends_when_the_reader_fails(text):
    def read() -> None:
        for _ in Loader(TrainConfig.of("tiny", seq=8, corpus=text, steps=1000)):
            raise RuntimeError("a reader's own error")

    before = len(loader_threads())
    with pytest.raises(RuntimeError, match="a reader's own error"):
        read()
    assert len(loader_threads()) == before


def test_batches_are_prepared_ahead(text):
    loader = Loader(TrainConfig.of("tiny", seq=8, corpus=text, steps=10))
    prepared, prepare = [], loader.batch
    loader.batch = lambda step: (prepared.append(step), prepare(step))[1]
    batches = iter(loader)
    next(batches)
    deadline = time.monotonic() + 5
    while len(prepared) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert prepared == [0, 1, 2, 3]  # one taken, two waiting, one in the thread's hands
    batches.close()


def test_an_exception_in_the_thread_reaches_the_reader(text):
    loader = Loader(TrainConfig.of("tiny", seq=8, corpus=text, steps=10))
    prepare = loader.batch

    def failing(step):
        if step == 3:
            raise OSError("the disk is gone")
        return prepare(step)

    loader.batch = failing
    steps = []
    with pytest.raises(OSError, match="the disk is gone"):
        steps.extend(batch.step for batch in loader)
    assert steps == [0, 1, 2]
    assert loader.state() == {"first_step": 3}
    assert not loader_threads()
