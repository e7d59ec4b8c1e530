"""Buckets: every parameter once, whole, in reverse order, and only the last bucket may be small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab_utils.layout.buckets import assign_buckets


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(0, 8000), st.sampled_from([2, 4, 8]))
def test_buckets(sizes, bucket_bytes, element_bytes):
    numels = {f"p{i}": numel for i, numel in enumerate(sizes)}
    buckets = assign_buckets(numels, bucket_bytes, element_bytes)
    assert [name for bucket in buckets for name in bucket.names] == list(numels)[::-1]
    for bucket in buckets:
        ends = [offset + numels[name] for name, offset in zip(bucket.names, bucket.offsets, strict=True)]
        assert bucket.offsets == (0, *ends[:-1])
        assert bucket.numel == ends[-1]
        without_last = bucket.offsets[-1]
        assert without_last * element_bytes < bucket_bytes or without_last == 0      # closed as soon as it is full
    assert all(bucket.numel * element_bytes >= bucket_bytes for bucket in buckets[:-1])


def test_by_hand():
    buckets = assign_buckets({"a": 1, "b": 2, "c": 3, "d": 4}, bucket_bytes=20)
    assert [(b.names, b.offsets, b.numel) for b in buckets] == [(("d", "c"), (0, 4), 7), (("b", "a"), (0, 2), 3)]
    assert assign_buckets({}, 20) == ()
