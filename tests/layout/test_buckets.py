"""Buckets: every parameter once, whole, in reverse order; large ones alone; and only the last
bucket may be small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab_utils.layout.buckets import assign_buckets


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=40),
    st.integers(0, 8000),
    st.sampled_from([2, 4, 8]),
)
def test_buckets(sizes, bucket_bytes, element_bytes):
    numels = {f"p{i}": numel for i, numel in enumerate(sizes)}
    buckets = assign_buckets(numels, bucket_bytes, element_bytes)
    backward = list(numels)[::-1]
    large = [name for name in backward if numels[name] * element_bytes >= bucket_bytes]
    alone = [
        bucket.names[0]
        for bucket in buckets
        if numels[bucket.names[0]] * element_bytes >= bucket_bytes
    ]
    assert alone == large
    assert all(
        bucket.names == (name,) for bucket in buckets for name in bucket.names if name in large
    )
    assert [name for bucket in buckets for name in bucket.names if name not in large] == [
        name for name in backward if name not in large
    ]
    closed = [backward.index(bucket.names[-1]) for bucket in buckets]
    # a bucket leaves no later than one that fills up after it
    assert closed[:-1] == sorted(closed[:-1])
    for bucket in buckets:
        ends = [
            offset + numels[name] for name, offset in zip(bucket.names, bucket.offsets, strict=True)
        ]
        assert bucket.offsets == (0, *ends[:-1])
        assert bucket.numel == ends[-1]
        without_last = bucket.offsets[-1]
        # closed as soon as it is full
        assert without_last * element_bytes < bucket_bytes or without_last == 0
    assert all(bucket.numel * element_bytes >= bucket_bytes for bucket in buckets[:-1])


def test_by_hand():
    buckets = assign_buckets({"a": 1, "b": 2, "c": 3, "d": 4}, bucket_bytes=20)
    assert [(b.names, b.offsets, b.numel) for b in buckets] == [
        (("d", "c"), (0, 4), 7),
        (("b", "a"), (0, 2), 3),
    ]
    buckets = assign_buckets({"a": 1, "b": 5, "c": 3, "d": 1}, bucket_bytes=16)
    assert [(b.names, b.offsets, b.numel) for b in buckets] == [
        (("d", "c"), (0, 1), 4),
        (("b",), (0,), 5),
        (("a",), (0,), 1),
    ]
    assert assign_buckets({}, 20) == ()
