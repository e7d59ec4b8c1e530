"""Questions that are too large, for the machine or for an answer, are refused at once and in one
sentence, in both languages."""

from __future__ import annotations

import re
import time

import pytest
from quiet import on_time

from lab_utils import TrainConfig, estimate, i18n, machine
from lab_utils.__main__ import main
from lab_utils.config import ConfigError
from lab_utils.estimate.fit import bytes_of_ranks, does_not_fit_here, what_would_fit
from lab_utils.estimate.hardware import cluster
from lab_utils.estimate.plan import neighbours, plan
from lab_utils.sizes import in_one_scale, size
from lab_utils.train.room import refuse_what_does_not_fit

HAN = re.compile(r"[\u4e00-\u9fff]")
REFUSED = {
    "train --dp 1000 --global-batch 1000": "1,000 ranks do not fit this machine",
    "train --preset llama3-8b --steps 1": "is the largest model that would",
    "train --threads 100000 --dp 2": "threads must be at most",
    "train --precision fp16 --loss-scale 1e300": "--loss-scale must lie between 1 and",
    "estimate --dp 1000000000 --global-batch 1000000000": "at most 131,072",
    "estimate --global-batch 1000000000000000000": "at most 1,000,000,000",
    "estimate --layers 10000000": "--layers must be at most 10,000",
    "estimate --layers 1000 --pp 1000": "--pp must be at most 256",
    "estimate --layers 64 --pp 64 --schedule gpipe --global-batch 1000000 --micro-batch 1": (
        "or --schedule 1f1b"
    ),
    "estimate --bucket-mib 1e-9": "at least a byte",
    "plan --gpus 10000000000000000000000": "at most 131,072",
    "plan --top 100000": "--top must be at most 100",
    "plan --tp 0": "--tp must be a whole number from 1 up",
    "plan --pp -1": "--pp must be a whole number from 1 up",
    "plan --dp 0": "--dp must be a whole number from 1 up",
    "plan --dp 7": "use --gpus 63",
    "plan --micro-batch 0": "--micro-batch must be a whole number from 1 up",
    "plan --zero 5": "--zero must be 0, 1, 2 or 3",
    "plan --virtual-stages -3": "--virtual-stages must be a whole number from 1 up",
    "plan --virtual-stages 7 --schedule 1f1b": "use --schedule interleaved",
    "plan --virtual-stages 100": "--virtual-stages 16 or fewer",
    "plan --schedule interleaved --pp 1": "--pp 1 is no pipeline",
    "train --corpus /tmp": "this is a folder",
    "compare /no/such/a.json /no/such/b.json": "there is no such file",
}


@pytest.mark.parametrize("command", REFUSED)
def test_refused_at_once_in_one_sentence(command, monkeypatch, capsys):
    for lang in ("en", "zh"):
        monkeypatch.setattr(i18n, "_chosen", lang)
        begun = time.monotonic()
        assert main(command.split()) == 2
        seconds = time.monotonic() - begun
        out, said = capsys.readouterr()
        assert (out, said.count("\n")) == ("", 1)
        assert bool(HAN.search(said)) == (lang == "zh")
        assert lang == "zh" or REFUSED[command] in said
        on_time(seconds < 2, f"{seconds:.1f} s until it was refused, of 2 s")


def test_what_is_advised_fits():
    big, free = TrainConfig.of("gpt2", global_batch=64), 20 * 10**9
    assert "need 80." in does_not_fit_here(big, free)
    advice = what_would_fit(big, lambda other: does_not_fit_here(other, free) is None)
    assert advice == "It would with --micro-batch 1."
    assert bytes_of_ranks(big.replace(micro_batch=1)) <= free
    # the ranks of one of two machines need half as much
    two = big.replace(dp=2)
    assert 2 * bytes_of_ranks(two, [0]) == bytes_of_ranks(two) == bytes_of_ranks(two, [0, 1])


def test_what_fits_is_not_refused(monkeypatch):
    config = TrainConfig.of("tiny", dp=2)
    refuse_what_does_not_fit(config)
    need = bytes_of_ranks(config)
    monkeypatch.setattr("lab_utils.train.room.free_memory", lambda: need)
    refuse_what_does_not_fit(config)
    monkeypatch.setattr("lab_utils.train.room.free_memory", lambda: need - 1)
    with pytest.raises(ConfigError, match="does not fit this machine: its ranks need "):
        refuse_what_does_not_fit(config)
    assert machine.free_memory() > need


def test_estimate_says_that_a_gpu_is_too_small(capsys):
    flags = ["--preset", "llama3-8b", "--gpu", "A100-40", "--precision", "bf16-pure"]
    flags += ["--global-batch", "1"]
    assert main(["estimate", *flags]) == 0
    out = capsys.readouterr().out
    assert "does not fit: the fullest rank peaks at " in out
    assert "one A100-40 has 40.0 GB, of which 4.00 GB are left" in out
    config = TrainConfig.of("llama3-8b", precision="bf16-pure", global_batch=1)
    assert any("does not fit" in note for note in estimate(config, cluster("A100-40")).notes)
    assert not any("does not fit" in note for note in estimate(config, cluster("B200")).notes)


def test_amounts_stand_in_one_scale():
    assert in_one_scale({"a": 4.54e9, "b": 68.17e9, "c": 1e6}) == (
        "GB",
        {"a": "4.54", "b": "68.2", "c": "0.001"},
    )
    assert [size(n) for n in (0, 999, 999_900, 84.7e9, 2.83e12)] == [
        "0.00 B",
        "999 B",
        "1.00 MB",
        "84.7 GB",
        "2.83 TB",
    ]


def test_no_neighbour_of_a_small_model_s_plan_is_much_faster():
    from lab_utils import ModelConfig

    best = plan(ModelConfig(), cluster("H100-SXM"), 1, 512, top=2)[0]
    assert best.config.micro_batch > 16
    assert [why for _, why in neighbours(best) if "faster" in why] == []


def test_a_pinned_number_of_virtual_stages_is_kept():
    from lab_utils import ModelConfig

    model = ModelConfig(layers=32)
    found = plan(model, cluster("H100-SXM"), 8, 64, top=3, pp=2, virtual_stages=7)
    assert {one.config.parallel.virtual_stages for one in found} == {7}
