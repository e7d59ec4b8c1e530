"""What the ZeRO tool calls measured: every record equals the estimate, runs of today equal the
records, and the tool says no more than that."""

from __future__ import annotations

import re
from itertools import product

import pytest

from lab_utils import train
from lab_utils.widgets.zero import held as zero_bytes
from lab_utils.widgets.zero import measured as zero_measured
from lab_utils.widgets.zero import traffic as zero_traffic
from lab_utils.widgets.zero.costs import PRECISIONS, Setting, memory, traffic
from lab_utils.widgets.zero.measured import RECORDING, TERMS, measured_memory, measured_traffic

TINY = {
    "model": "tiny",
    "precision": "bf16-pure",
    "optimizer": "adamw",
    "ranks": 4,
    "micro_batches": 1,
    "stage": "3",
}
SCENES = (zero_bytes.scene, zero_traffic.scene)


def note(scene: dict) -> str:
    return next(item["text"] for item in scene["items"] if item["key"] == "note")


def test_every_record_equals_the_estimate():
    for case, _ in RECORDING.runs:
        setting, stage = Setting.of(case), case["stage"]
        held = memory(setting, stage)
        assert measured_memory(setting, stage) == {term: held[term] for term in TERMS}, case
        found = sorted(measured_traffic(setting, stage), key=str)
        assert found == sorted(traffic(setting, stage), key=str), case


# one case is run for every tool; these are the stages and optimizers that it leaves out
@pytest.mark.parametrize(
    ("ranks", "precision", "optimizer", "micro_batches", "stage"),
    [
        (4, "bf16-pure", "adamw", 1, "1"),
        (2, "fp32", "sgd", 2, "2"),
        (4, "bf16-pure", "adamw", 2, "offload"),
    ],
)
def test_a_run_of_today_equals_the_record(ranks, precision, optimizer, micro_batches, stage):
    setting = Setting("tiny", ranks, precision, optimizer, micro_batches)
    case = setting._asdict() | {"stage": stage}
    found, _ = RECORDING.measure(case, train)
    assert found == RECORDING.found(**case)


def test_measured_marks_stand_at_the_ends_of_the_estimated_bars():
    for ranks, precision, draw in product(zero_measured.RANKS, PRECISIONS, SCENES):
        items = {
            item["key"]: item
            for item in draw(TINY | {"ranks": ranks, "precision": precision}, "en")["items"]
        }
        ticks = {
            key: float(re.match(r"M([\d.]+)", item["d"]).group(1)) + 4
            for key, item in items.items()
            if "-tick-" in key
        }
        assert len(ticks) >= 7
        for key, x in ticks.items():
            bar = items[key.replace("tick-", "")]
            assert x == pytest.approx(bar["x"] + bar["width"], abs=1.2)
    assert "measured = estimated" in note(zero_bytes.scene(TINY, "en"))
    assert zero_bytes.scene(TINY, "en")["alt"].endswith("the same to the byte.")


@pytest.mark.parametrize(
    ("change", "measured"),
    [({"ranks": 4}, True), ({"ranks": 8}, False), ({"model": "gpt2-xl"}, False)],
)
def test_measured_is_said_only_where_it_was_measured(change, measured):
    for draw in SCENES:
        scene = draw(TINY | change, "en")
        assert any("-tick-" in item["key"] for item in scene["items"]) == measured
        assert note(scene).startswith("▲ measured") == measured
    assert ("Measured in a real run" in zero_bytes.scene(TINY | change, "en")["alt"]) == measured


def test_a_measurement_that_differs_is_said_to_differ(monkeypatch):
    def forget() -> None:
        zero_bytes._common.cache_clear()
        zero_traffic._common.cache_clear()

    forget()
    run = RECORDING.found(**Setting.of(TINY)._asdict(), stage="2")
    monkeypatch.setitem(run["memory"], "gradients", 1)
    monkeypatch.setitem(run["traffic"][0], "calls", 1)
    for draw in SCENES:
        assert "measured ≠ estimated" in note(draw(TINY, "en"))
    assert "the same to the byte" not in zero_bytes.scene(TINY | {"stage": "2"}, "en")["alt"]
    forget()
