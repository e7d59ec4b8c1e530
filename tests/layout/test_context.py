"""Context parallelism as data: every token has one owner, every pair of tokens meets once, and all
ranks have as much to do."""

from __future__ import annotations

import pytest

from lab_utils import TrainConfig
from lab_utils.config import ConfigError
from lab_utils.layout.context import data_axis, meetings, runs_of_rank
from lab_utils.layout.refusals import refuse_layout

RANKS = (2, 3, 4, 8)


def met(seq: int, ranks: int, rank: int) -> list[tuple[int, int]]:
    """(query, key) of all that one rank computes and its masks leave."""
    shares = [[i for run in runs_of_rank(seq, ranks, r, "ring") for i in run] for r in range(ranks)]
    mine, half, found = shares[rank], seq // ranks // 2, []
    for meeting in meetings(ranks, rank):
        queries = mine if meeting.queries == "all" else mine[half:]
        theirs = shares[meeting.source]
        keys = theirs if meeting.keys == "all" else theirs[:half]
        # the kernel's mask goes by the place in the tensors
        found += [
            (q, k)
            for i, q in enumerate(queries)
            for j, k in enumerate(keys)
            if not meeting.causal or j <= i
        ]
    return found


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("kind", ["ring", "all-to-all"])
def test_every_token_has_one_owner(ranks, kind):
    seq = 4 * ranks
    held = [i for r in range(ranks) for run in runs_of_rank(seq, ranks, r, kind) for i in run]
    assert sorted(held) == list(range(seq))
    assert runs_of_rank(seq, 1, 0, kind) == (range(seq),)


@pytest.mark.parametrize("ranks", RANKS)
def test_every_token_meets_itself_and_all_before_it_once(ranks):
    seq = 4 * ranks
    found = sorted(pair for rank in range(ranks) for pair in met(seq, ranks, rank))
    assert found == [(q, k) for q in range(seq) for k in range(q + 1)]


@pytest.mark.parametrize("ranks", RANKS)
def test_all_ranks_have_as_much_to_do_where_plain_runs_would_not(ranks):
    seq = 4 * ranks
    assert len({len(met(seq, ranks, rank)) for rank in range(ranks)}) == 1
    # in every step, too, or the slowest would hold up the ring
    work = {
        tuple(1 if m.causal or m.queries != "all" or m.keys != "all" else 2 for m in meetings(*x))
        for x in ((ranks, rank) for rank in range(ranks))
    }
    assert work == {(1,) * ranks}
    plain = [
        sum(q + 1 for run in runs_of_rank(seq, ranks, rank, "all-to-all") for q in run)
        for rank in range(ranks)
    ]
    share = max(plain) * ranks / sum(plain)
    assert share == pytest.approx((2 * ranks - 1) / ranks, rel=0.15)  # of the mean; exact for long


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (dict(cp=3), "no multiple of that: use --seq 66."),
        (dict(cp=2, seq=63), "cuts a sequence into 4 equal parts"),
        (dict(cp=2, attention="explicit"), "use --attention sdpa, or --cp-kind all-to-all"),
        (dict(cp=8, cp_kind="all-to-all"), "use --cp 4, or --cp-kind ring"),
        (dict(cp=4, tp=2, cp_kind="all-to-all"), "use --cp 2, or --cp-kind ring"),
    ],
)
def test_what_cannot_be_shared_out_is_refused_with_what_can(flags, sentence):
    with pytest.raises(ConfigError, match=sentence.replace(".", r"\.")):
        refuse_layout(TrainConfig.of("tiny", **flags))


def test_gradients_are_summed_over_all_that_hold_the_same_weights():
    names = {(1, 1): "dp", (2, 1): "dp", (1, 2): "cp", (2, 2): "dp_cp"}
    for (dp, cp), name in names.items():
        assert data_axis(TrainConfig.of("tiny", dp=dp, cp=cp)) == name
