"""What the ZeRO tool calls measured: every record equals the estimate, runs of today equal the records, and the tool says no more than that."""

from __future__ import annotations

import re
from itertools import product

import pytest

from lab_utils import train
from lab_utils.widgets import zero_bytes, zero_measured, zero_traffic
from lab_utils.widgets.zero_costs import PRECISIONS, Setting, memory, traffic
from lab_utils.widgets.zero_measured import TERMS, cases, conditions, measured_memory, measured_traffic

TINY = {"model": "tiny", "precision": "bf16-pure", "optimizer": "adamw", "ranks": 4, "micro_batches": 1, "stage": "3"}
SCENES = (zero_bytes.scene, zero_traffic.scene)


def note(scene: dict) -> str:
    return next(item["text"] for item in scene["items"] if item["key"] == "note")


def test_every_case_was_measured_and_equals_the_estimate():
    assert set(zero_measured._recorded()[1]) == set(cases())
    for case in cases():
        assert measured_memory(*case) == {term: memory(*case)[term] for term in TERMS}, case
        assert sorted(measured_traffic(*case), key=str) == sorted(traffic(*case), key=str), case
    assert set(conditions()) == {"device", "torch", "date"}


# every stage, both precisions, both optimizers, both numbers of ranks, one and several micro-batches
@pytest.mark.parametrize(("ranks", "precision", "optimizer", "micro_batches", "stage"), [
    (2, "fp32", "adamw", 1, "0"), (4, "bf16-pure", "adamw", 1, "1"), (4, "fp32", "sgd", 2, "2"), (2, "bf16-pure", "adamw", 2, "2"),
    (4, "fp32", "adamw", 1, "3"), (2, "bf16-pure", "sgd", 8, "3"), (4, "bf16-pure", "adamw", 2, "offload"), (2, "fp32", "sgd", 1, "1"),
])  # fmt: skip
def test_a_run_of_today_equals_the_record(ranks, precision, optimizer, micro_batches, stage):
    setting = Setting("tiny", ranks, precision, optimizer, micro_batches)
    run, device = zero_measured.measure(setting, stage, train)
    assert device
    assert run == zero_measured._recorded()[1][setting, stage]


def test_the_writer_writes_what_the_reader_reads(tmp_path, monkeypatch):
    recorded = {case: zero_measured._recorded()[1][case] for case in list(cases())[:3]}
    about = conditions()
    monkeypatch.setattr(zero_measured, "FILE", tmp_path / "below" / "file.json")
    monkeypatch.setattr(zero_measured, "cases", lambda: iter(recorded))
    zero_measured._recorded.cache_clear()
    try:
        zero_measured.write(train)
        assert zero_measured._recorded()[1] == recorded
        assert set(conditions()) == set(about)
    finally:
        monkeypatch.undo()
        zero_measured._recorded.cache_clear()


def test_measured_marks_stand_at_the_ends_of_the_estimated_bars():
    for ranks, precision, draw in product(zero_measured.RANKS, PRECISIONS, SCENES):
        items = {item["key"]: item for item in draw(TINY | {"ranks": ranks, "precision": precision}, "en")["items"]}
        ticks = {key: float(re.match(r"M([\d.]+)", item["d"]).group(1)) + 4 for key, item in items.items() if "-tick-" in key}
        assert len(ticks) >= 7
        for key, x in ticks.items():
            bar = items[key.replace("tick-", "")]
            assert x == pytest.approx(bar["x"] + bar["width"], abs=1.2)
    assert "measured = estimated" in note(zero_bytes.scene(TINY, "en"))
    assert zero_bytes.scene(TINY, "en")["alt"].endswith("the same to the byte.")


@pytest.mark.parametrize(("change", "measured"), [({"ranks": 4}, True), ({"ranks": 8}, False), ({"model": "gpt2-xl"}, False)])
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
    run = zero_measured._recorded()[1][Setting.of(TINY), "2"]
    monkeypatch.setitem(run["memory"], "gradients", 1)
    monkeypatch.setitem(run["traffic"][0], "calls", 1)
    for draw in SCENES:
        assert "measured ≠ estimated" in note(draw(TINY, "en"))
    assert "the same to the byte" not in zero_bytes.scene(TINY | {"stage": "2"}, "en")["alt"]
    forget()
