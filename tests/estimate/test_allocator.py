"""What the caching allocator makes of requests, by its published rules; additions are labelled, and
no part of the peak."""

from __future__ import annotations

from lab_utils import TrainConfig, estimate
from lab_utils.estimate.memory.allocator import additions, block_bytes, segment_bytes

MIB = 2**20


def test_rounding():
    assert [block_bytes(n) for n in (1, 512, 513, 4096)] == [512, 512, 1024, 4096]
    assert [
        segment_bytes(n) // MIB
        for n in (1, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 10 * MIB + 1, 21 * MIB)
    ] == [2, 2, 20, 10, 10, 12, 22]


def test_additions_are_labelled_and_apart():
    config = TrainConfig.of("tiny", dp=2, tp=2)
    found = additions(config)
    assert {addition.kind for addition in found.values()} <= {"specification", "assumption"}
    assert all(addition.source and addition.nbytes > 0 for addition in found.values())
    assert additions(TrainConfig.of("tiny"))["nccl_buffers"].nbytes == 0
    memory = estimate(config).ranks[0].memory
    assert sum(memory["at_peak"].values()) == memory["peak"]
    assert not set(found) & set(memory["at_peak"])
