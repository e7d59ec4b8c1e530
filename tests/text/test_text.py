"""Tables whose columns stand under each other, Han characters counted as two."""

from __future__ import annotations

from lab_utils.text import columns, table


def test_columns():
    assert columns("abc") == 3
    assert columns("内存，") == 6
    assert columns("2(N−1)/N · →") == 12


def test_alignment_and_formats():
    shown = table([("项目", "估算"), ("bytes", 1234567), ("内存占用", "–"), ("same", True)])
    lines = shown.splitlines()
    assert len({columns(line) for line in lines}) == 1      # the last column ends at one edge
    assert lines[1].endswith("1,234,567")
    assert lines[3].endswith("yes")
    assert lines[0].startswith("项目    ")
