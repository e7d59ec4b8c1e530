"""The verdicts, from records alone: no process."""

from traceback import TracebackException

import pytest

from lab_utils.launch.diagnose import History, RankState, diagnose
from lab_utils.launch.errors import echo_of
from lab_utils.launch.record import ANYONE, Call, Channel, Reader, Recorder

WORLD = Channel("0", (0, 1, 2))
SUM = Call("all_reduce", "sum", "float32", (4,))
NOW = 1000.0


def history(*calls):
    """A History from (rank, channel, number, call)."""
    past = History()
    for call in calls:
        past.add(*call)
    return past


def running(n=3, **waiting):
    """`n` ranks that run; r1=(channel, number, seconds) says that rank 1 has waited there for so
    long."""
    states = [RankState() for _ in range(n)]
    for name, (channel, number, seconds) in waiting.items():
        states[int(name[1:])].waiting = (channel, number, NOW - seconds)
    return states


def verdict(past, states, timeout=10.0):
    return diagnose(past, states, timeout, NOW)


def test_all_is_well():
    assert verdict(history(), running()) is None
    waiting = running(r0=(WORLD, 1, 9))
    assert verdict(history((0, WORLD, 1, SUM)), waiting) is None, "a peer may take its time"
    done = history(*((r, WORLD, 1, SUM) for r in range(3)))
    assert verdict(done, running(r0=(WORLD, 1, 99))) is None, (
        "all have come: the transfer itself is slow"
    )
    endless = verdict(done, running(r0=(WORLD, 1, 101)))
    assert (endless.cause, endless.ranks, endless.all_came) == ("hung", (0,), True)


def test_the_minority_is_wrong():
    other = Call("broadcast", None, "float32", (4,), 0)
    found = verdict(
        history((0, WORLD, 1, SUM), (1, WORLD, 1, other), (2, WORLD, 1, SUM)), running()
    )
    assert (found.cause, found.ranks, found.peers) == ("mismatch", (1,), (0, 2))
    tie = verdict(history((0, WORLD, 1, SUM), (1, WORLD, 1, other)), running())
    assert (tie.cause, tie.ranks) == ("mismatch", (0, 1))


@pytest.mark.parametrize(
    "other",
    [
        Call("all_reduce", "max", "float32", (4,)),
        Call("all_reduce", "sum", "bfloat16", (4,)),
        Call("all_reduce", "sum", "float32", (2, 2)),
    ],
)
def test_what_counts_as_a_mismatch(other):
    assert verdict(history((0, WORLD, 1, SUM), (1, WORLD, 1, other)), running()).cause == "mismatch"


def test_calls_are_compared_by_number_on_their_own_channel():
    pair = Channel("1", (0, 1))
    other = Call("barrier")
    assert (
        verdict(
            history(
                (0, WORLD, 1, SUM), (0, WORLD, 2, other), (1, pair, 1, other), (1, WORLD, 1, SUM)
            ),
            running(),
        )
        is None
    )


def test_a_message_may_be_viewed_in_another_shape():
    way = Channel("0:0", (0, 1), p2p=True)
    sent = (0, way, 1, Call("send", None, "float32", (2, 3)))
    assert (
        verdict(history(sent, (1, way, 1, Call("recv", None, "float32", (6,)))), running()) is None
    )
    assert (
        verdict(history(sent, (1, way, 1, Call("recv", None, "float32", (5,)))), running()).cause
        == "mismatch"
    )
    anyone = Channel("0:0", (ANYONE, 1), p2p=True)
    taken = history(
        (1, anyone, 1, Call("recv_anysource")),
        sent,
        (1, way, 1, Call("recv", None, "float32", (5,))),
    )
    assert verdict(taken, running()) is None, (
        "the pairs of a rank that takes what comes cannot be told"
    )


def test_who_returned_is_to_blame_not_who_waits():
    states = running(r0=(WORLD, 1, 0.2), r2=(WORLD, 1, 0.2))
    states[1].end = "returned"
    found = verdict(history((0, WORLD, 1, SUM), (2, WORLD, 1, SUM)), states)
    assert (found.cause, found.ranks, found.peers) == ("left", (1,), (0, 2))
    states[0].waiting = states[2].waiting = (WORLD, 1, NOW)
    assert verdict(history((0, WORLD, 1, SUM), (2, WORLD, 1, SUM)), states) is None, (
        "the wait has only begun"
    )


def test_hang_is_traced_to_who_waits_for_nobody():
    way = Channel("0:0", (2, 1), p2p=True)
    past = history((0, WORLD, 1, SUM), (1, way, 1, Call("recv", None, "float32", (4,))))
    assert verdict(past, running(r0=(WORLD, 1, 9), r1=(way, 1, 9))) is None
    found = verdict(past, running(r0=(WORLD, 1, 11), r1=(way, 1, 9)))
    assert (found.cause, found.ranks) == ("hung", (2,))


def test_circle():
    there, back = Channel("0:0", (0, 1), p2p=True), Channel("0:0", (1, 0), p2p=True)
    receive = Call("recv", None, "float32", (4,))
    past = history((1, there, 1, receive), (0, back, 1, receive))
    assert verdict(past, running(2, r0=(back, 1, 0.5), r1=(there, 1, 2))) is None
    found = verdict(past, running(2, r0=(back, 1, 1.5), r1=(there, 1, 2)))
    assert (found.cause, found.ranks, found.calls) == ("hung", (0, 1), {0: receive, 1: receive})


def test_causes_come_before_consequences():
    states = running()
    states[0] = RankState("raised", 1.0, "Connection closed by peer", echo="lost")
    assert verdict(history(), states).echo
    states[2] = RankState("killed", 2.0, 9)
    assert (verdict(history(), states).cause, verdict(history(), states).ranks) == ("killed", (2,))
    states[1] = RankState("raised", 3.0, "boom")
    assert (verdict(history(), states).cause, verdict(history(), states).ranks) == ("raised", (1,))
    wrong = history((0, WORLD, 1, SUM), (1, WORLD, 1, Call("barrier")))
    assert verdict(wrong, states).cause == "mismatch"


def test_several_that_fail_alike_are_named_together():
    states = [
        RankState("raised", 3.0, "boom"),
        RankState("raised", 2.0, "boom"),
        RankState("raised", 2.5, "other"),
    ]
    assert verdict(history(), states).ranks == (0, 1), "whichever came first by chance"


def test_a_timeout_blames_who_did_not_come():
    states = running()
    for r in (0, 2):
        states[r] = RankState(
            "raised", 1.0, "Timed out waiting 7000ms for recv operation to complete", echo="timeout"
        )
    found = verdict(history(), states)
    assert (found.cause, found.ranks, found.peers) == ("hung", (1,), (0, 2))


@pytest.mark.parametrize(
    ("text", "echo"),
    [
        (
            (
                "[/somewhere/gloo/transport/tcp/pair.cc:538] Connection closed by peer"
                " [127.0.0.1]:2342"
            ),
            "lost",
        ),
        (
            (
                "[/somewhere/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 7000ms for"
                " recv operation to complete"
            ),
            "timeout",
        ),
        ("wait timeout after 7000ms, keys: /default_pg/0/store", "timeout"),
        ("the loss is not a number", None),
        ("no answer: the socket of the database timed out", None),
    ],
)
def test_echoes_are_told_from_causes(text, echo):
    error, later = RuntimeError(text), ValueError("and then")
    later.__cause__ = error
    assert echo_of(TracebackException.from_exception(error)) == echo
    assert echo_of(TracebackException.from_exception(later)) == echo, (
        "what an echo causes is one, too"
    )


def test_alone():
    states = [RankState("returned", NOW - 11), RankState("returned", NOW - 30), RankState()]
    assert (verdict(history(), states).cause, verdict(history(), states).ranks) == ("hung", (2,))
    states[0].at = NOW - 9
    assert verdict(history(), states) is None


def test_record_keeps_what_was_written(tmp_path):
    reader = Reader(tmp_path / "rank0")
    recorder = Recorder(tmp_path / "rank0")
    channel, call = recorder.word(WORLD), recorder.word(SUM)
    place = recorder.called(channel, call)
    assert recorder.inside(place) is None
    assert reader.waiting()[:2] == (WORLD, 1)
    assert recorder.inside(None) == place
    assert reader.waiting() is None
    assert list(reader.new_calls()) == [(WORLD, 1, SUM)]
    for _ in range(100_000):  # more than the ring holds
        recorder.called(channel, call)
    numbers = [number for _, number, _ in reader.new_calls()]
    assert numbers == list(range(numbers[0], 100_002)), "the newest, without a gap"
    reader.close()


def test_calls_spell_themselves():
    assert str(SUM) == "all_reduce(float32 [4], sum)"
    assert str(Call("barrier")) == "barrier()"
    assert str(Call("broadcast", None, "int64", (2, 3), 1)) == "broadcast(int64 [2, 3], root 1)"
    assert (
        str(Call("all_gather", None, "float32", ((4,), (2, 2))))
        == "all_gather(float32 [[4], [2, 2]])"
    )
