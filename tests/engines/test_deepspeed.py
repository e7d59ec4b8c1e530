"""DeepSpeed's ZeRO trains the same model as one process of ours, quietly, and says in one sentence
what it lacks."""

from __future__ import annotations

from importlib.util import find_spec

import psutil
import pytest
import torch
from alike import BASE, LLAMA, check_alike, run_all, run_alone
from equality import Run

from lab_utils import TrainConfig, i18n, launch, train
from lab_utils.bench import Row, bench
from lab_utils.config import ConfigError
from lab_utils.engines.deepspeed_setup import extensions_folder, why_not
from lab_utils.launch import LaunchError
from lab_utils.layout.parameters import parameter_count

can_run = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
CASES = {  # what is changed, beside BASE and two ranks
    "stage 0": dict(clip=0.3),
    "stage 0, accumulated, recomputed": dict(micro_batch=2, recompute="full"),
    "stage 1": dict(zero=1, clip=0.3),
    "stage 1, adamw, accumulated": dict(zero=1, optimizer="adamw", micro_batch=2),
    "stage 1, offloaded": dict(zero=1, offload=True),
    "stage 2": dict(zero=2, clip=0.3),
    "stage 2, accumulated, llama": dict(zero=2, micro_batch=2, **LLAMA),
    "stage 2, adamw, offloaded": dict(zero=2, optimizer="adamw", offload=True),
    "stage 3": dict(zero=3, clip=0.3),
    "stage 3, accumulated, tied": dict(zero=3, micro_batch=2, tied=True),
    "stage 3, adamw, offloaded": dict(zero=3, optimizer="adamw", offload=True),
    "stage 3, large vocabulary, recomputed": dict(zero=3, vocab=4096, recompute="full"),
    "stage 1, bf16": dict(zero=1, precision="bf16"),
    "stage 2, bf16": dict(zero=2, precision="bf16", micro_batch=2),
    "stage 3, bf16": dict(zero=3, precision="bf16"),
    "stage 2, 3 ranks": dict(dp=3, zero=2, global_batch=9),
}
CONFIGS = {name: BASE.replace(**{"dp": 2} | flags) for name, flags in CASES.items()}
WHOLE = 4 * parameter_count(BASE.model)


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """All cases of one size of the world run in the same processes, one after the other."""
    return run_all(CONFIGS, "deepspeed")


@pytest.fixture(scope="module")
def one_process() -> dict[str, Run]:
    return run_alone(CONFIGS)


@can_run
@pytest.mark.parametrize("name", CASES)
def test_equal_to_one_process_of_ours(name, runs, one_process):
    check_alike(name, runs[name], one_process[name], tolerance=5e-3 if "bf16" in name else 1e-6)


@can_run
def test_what_it_sends(runs):
    summed, gathered = ("all_reduce", "dp", "gradient"), ("all_gather", "dp", "parameter")
    # its stages 1 and 2 sum whole gradients, and each rank keeps its part
    for name, wanted in {
        "stage 0": {summed: WHOLE},
        "stage 1": {summed: WHOLE, gathered: WHOLE},
        "stage 2": {summed: WHOLE, gathered: WHOLE},
        # after every micro-batch
        "stage 2, accumulated, llama": {
            summed: 2 * 4 * parameter_count(CONFIGS["stage 2, accumulated, llama"].model),
            gathered: 4 * parameter_count(CONFIGS["stage 2, accumulated, llama"].model),
        },
    }.items():
        for rank in runs[name].ranks:
            assert {
                (e.op, e.axis, e.purpose): e.bytes for e in rank.traffic if e.purpose != "control"
            } == wanted, name


@can_run
def test_stage_3_shares_out_what_is_large(runs):
    """Below 100,000 elements a weight stays whole on every rank, beside its shard: DeepSpeed's own
    default."""
    for name in ("stage 3", "stage 3, large vocabulary, recomputed"):
        model = CONFIGS[name].model
        large = 2 * model.vocab * model.hidden if model.vocab > 256 else 0
        first, second = runs[name].ranks
        shards, whole = 4 * parameter_count(model) // 2, 4 * (parameter_count(model) - large)
        assert first.memory["parameters"] == second.memory["parameters"] == shards + whole
        sent = {(e.op, e.purpose): e.bytes for e in first.traffic}
        assert sent["reduce_scatter", "gradient"] == 4 * parameter_count(model)


@can_run
def test_optimizer_states_live_where_they_should(runs):
    momentum_and_fp32 = 2 * WHOLE // 2
    for name, here, in_host in (
        ("stage 1", momentum_and_fp32, 0),
        ("stage 1, offloaded", 0, momentum_and_fp32),
    ):
        memory = runs[name].ranks[0].memory
        assert (memory["optimizer"], memory["offloaded"]) == (here, in_host)
        assert memory["gradients"] is None  # gone when the step is over


@can_run
def test_it_runs_quietly_and_leaves_nothing_behind(capfd):
    train(TrainConfig.of("tiny", layers=1), threads=1)  # the fork server is there from now on
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    capfd.readouterr()
    report = train(BASE.replace(dp=2, zero=2, steps=3, layers=1), engine="deepspeed", threads=1)
    assert capfd.readouterr() == ("", "")
    assert report.engine == "deepspeed"
    assert len(report.loss) == 3
    assert report.ranks[0].time["step"] > 0
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


@can_run
def test_two_engines_take_turns_in_one_process():
    row = bench(BASE.replace(dp=2, zero=2), Row("zero2", "ours", "deepspeed"), pairs=7, steps=1)
    assert len(row.ratios) == 7


@can_run
def test_the_extension_is_kept_with_the_project(monkeypatch, tmp_path):
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)
    assert extensions_folder().parts[-3:-1] == (".cache", "torch_extensions")
    assert torch.__version__ in extensions_folder().name
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    assert extensions_folder() == tmp_path


def engine_on_rank() -> None:
    from lab_utils.engines import make_engine
    from lab_utils.parallel.mesh import Mesh

    make_engine(BASE, "deepspeed", Mesh(BASE.parallel))


@pytest.mark.skipif(find_spec("deepspeed") is None, reason="DeepSpeed is not installed")
@pytest.mark.parametrize(("lang", "lacking"), [("en", "there is no c++"), ("zh", "没有 c++")])
def test_without_a_compiler_one_sentence_says_so(lang, lacking, monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(i18n, "_chosen", lang)
    assert all(words in why_not() for words in (lacking, "apt-get install g++", "--engine torch"))
    assert why_not().count("\n") == 0
    with pytest.raises(LaunchError) as refusal:
        launch(engine_on_rank, 1, threads=1)
    assert ConfigError.__name__ in str(refusal.value)
    assert why_not() in str(refusal.value)
