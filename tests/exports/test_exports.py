"""Exports: what each framework's own parser makes of them, and what cannot be expressed.

DeepSpeed's is asked here. torchtitan's and Megatron-LM's answers are a record
(tests/measured/exports.json), to which the exports of today are held word for word.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from plans import PLANS

from lab_utils import i18n
from lab_utils.__main__ import main
from lab_utils.config import ConfigError, TrainConfig
from lab_utils.exports import FRAMEWORKS, export
from lab_utils.parallel.mesh import AXES

RECORD = json.loads(
    (Path(__file__).parents[1] / "measured/exports.json").read_text(encoding="utf-8")
)
HAN = re.compile(r"[\u4e00-\u9fff]")
MEGATRON, TORCHTITAN, DEEPSPEED = (
    list(PLANS[name]) for name in ("megatron", "torchtitan", "deepspeed")
)


def recorded(framework: str, name: str) -> tuple[TrainConfig, dict]:
    """The plan, and what the framework's parser read in its export, which is that of today."""
    config, record = PLANS[framework][name], RECORD[framework][name]
    assert export(config, framework).text.split("\n") == record["text"], "make exports"
    return config, record["read"]


@pytest.mark.parametrize("name", MEGATRON)
def test_megatron_reads_the_layout_that_was_meant(name):
    config, read = recorded("megatron", name)
    p = config.parallel
    assert {axis: read[axis] for axis in AXES} == {axis: getattr(p, axis) for axis in AXES}
    assert read["stages a rank"] == p.virtual_stages
    assert read["batch"] == [config.micro_batch, config.global_batch]
    assert read["optimizer sharded"] == (p.zero > 0)
    assert read["fsdp"] == {2: "optim_grads", 3: "optim_grads_params"}.get(p.zero)
    assert read["sequence parallel"] == p.sequence_parallel
    assert read["recompute"] == (None if config.recompute == "none" else config.recompute)
    assert read["weights"] == ("torch.float16" if config.precision == "fp16" else "torch.bfloat16")


def test_megatron_puts_ranks_where_our_mesh_does():
    """On 16 ranks, two on each axis; in its usual order dp and pp change places."""
    strides = {"tp": 1, "cp": 2, "pp": 4, "dp": 8}

    def groups(axis: str) -> str:
        step = strides[axis]
        found = [f"{r} {r + step}" for r in range(16) if r // step % 2 == 0]
        return " | ".join(found)

    ranks = RECORD["ranks"]
    assert {axis: ranks[f"ours {axis}"] for axis in AXES} == {axis: groups(axis) for axis in AXES}
    assert ranks["usual dp"] == groups("pp")
    assert ranks["usual pp"] == groups("dp")


@pytest.mark.parametrize("name", TORCHTITAN)
def test_torchtitan_reads_the_layout_that_was_meant(name):
    config, read = recorded("torchtitan", name)
    p = config.parallel
    assert {axis: read[axis] for axis in AXES} == {axis: getattr(p, axis) for axis in AXES}
    assert read["sharded over"] == (p.replicas if p.zero else 1)
    assert read["reshard after forward"] == {0: "default", 2: "never", 3: "always"}[p.zero]
    assert (read["sequence"], read["layers of the model"]) == (
        config.model.seq,
        config.model.layers,
    )
    local = config.global_batch // p.dp if p.pp > 1 else config.micro_batch
    assert read["batch"] == [local, config.global_batch]
    if p.pp > 1:
        assert read["schedule"] == "Interleaved1F1B"
        assert read["layers a stage"] * p.pp * p.virtual_stages == config.model.layers
    assert read["sequence parallel"] == p.sequence_parallel
    assert read["offload"] == p.offload
    kinds = {"none": "NoneType", "selective": "SelectiveAC.Config", "full": "FullAC.Config"}
    assert read["recompute"] == kinds[config.recompute]


@pytest.mark.parametrize("name", DEEPSPEED)
def test_deepspeed_reads_the_layout_that_was_meant(name, monkeypatch):
    pytest.importorskip("deepspeed")
    import deepspeed.runtime.config as runtime

    config = PLANS["deepspeed"][name]
    p = config.parallel
    content = json.loads(export(config, "deepspeed").text)
    # no process group here: DeepSpeed would count the ranks that read the batch
    monkeypatch.setattr(runtime.dist, "get_rank", lambda: 0)
    ranks = p.world_size // (p.tp * p.pp)
    monkeypatch.setattr(runtime.dist, "get_world_size", lambda: ranks)
    read = runtime.DeepSpeedConfig(content)
    assert read.train_batch_size == config.global_batch
    assert read.train_micro_batch_size_per_gpu == config.micro_batch
    assert read.gradient_accumulation_steps == config.micro_batches
    assert read.zero_config.stage == p.zero
    assert (read.zero_config.offload_optimizer is not None) == p.offload
    assert read.bfloat16_config.enabled == (config.precision in ("bf16", "bf16-pure"))
    assert read.float16_config.enabled == (config.precision == "fp16")
    assert max(1, read.tensor_parallel_config.autotp_size) == p.tp
    assert read.gradient_clipping == config.clip
    assert read.optimizer_name.lower() == ("sgd" if config.optimizer == "sgd" else "adamw")
    # every entry is one that it knows
    known = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}
    known |= {"gradient_clipping", "optimizer", "zero_optimization", "bf16", "fp16"}
    assert set(content) <= known | {"tensor_parallel", "sequence_parallel_size"}


# -- what cannot be expressed ----------------------------------------------------------------------

TINY = dict(layers=8, global_batch=16, micro_batch=1)
REFUSED = {
    ("megatron", "zero-bubble"): dict(pp=2, schedule="zero-bubble"),
    ("megatron", "GPipe"): dict(pp=2, schedule="gpipe"),
    ("megatron", "Lion"): dict(optimizer="lion"),
    ("megatron", "some layers"): dict(recompute="0,2"),
    ("megatron", "half a machine"): dict(dp=4, tp=3, kv_heads=6, heads=6, hidden=96),
    ("torchtitan", "shape"): dict(),
    ("torchtitan", "ZeRO-1"): dict(preset="llama3-8b", dp=2, zero=1),
    ("torchtitan", "cp without ZeRO"): dict(preset="llama3-8b", cp=2),
    ("torchtitan", "heads for tokens"): dict(
        preset="llama3-8b", cp=2, cp_kind="all-to-all", zero=3
    ),
    ("torchtitan", "zero-bubble"): dict(preset="llama3-8b", pp=2, schedule="zero-bubble"),
    ("torchtitan", "uneven stages"): dict(preset="llama3-8b", pp=3),
    ("torchtitan", "some layers"): dict(preset="llama3-8b", recompute="0,2"),
    ("torchtitan", "fp16"): dict(preset="llama3-8b", precision="fp16"),
    ("deepspeed", "interleaved"): dict(pp=2, virtual_stages=2, schedule="interleaved"),
    ("deepspeed", "ZeRO-3 and a pipeline"): dict(pp=2, dp=2, zero=3),
    ("deepspeed", "a ring"): dict(cp=2),
    ("deepspeed", "tp and a pipeline"): dict(tp=2, pp=2),
    ("deepspeed", "Lion"): dict(optimizer="lion"),
    ("megatron", "fp8"): dict(precision="fp8"),
    ("torchtitan", "weight decay"): dict(weight_decay=0.1),
}


@pytest.mark.parametrize(("framework", "what"), REFUSED)
def test_what_cannot_be_expressed_is_said_with_what_can(framework, what, monkeypatch):
    flags = dict(REFUSED[framework, what])
    preset = flags.pop("preset", "tiny")
    config = TrainConfig.of(preset, **(TINY if preset == "tiny" else dict(global_batch=16)) | flags)
    said = []
    for lang in ("en", "zh"):
        monkeypatch.setattr(i18n, "_chosen", lang)
        with pytest.raises(ConfigError) as refused:
            export(config, framework)
        said.append(str(refused.value))
        assert "\n" not in said[-1]
    assert HAN.search(said[1])
    assert not HAN.search(said[0])
    assert re.search(r"--[a-z]|preset|multiple", said[0])


def test_every_note_is_in_both_languages():
    for framework, plans in PLANS.items():
        for config in plans.values():
            for en, zh in export(config, framework).notes:
                assert HAN.search(zh)
                assert not HAN.search(en)


def test_the_command_prints_what_can_be_kept_in_a_file(capsys):
    question = [
        "plan",
        "--preset",
        "llama3-8b",
        "--gpus",
        "8",
        "--global-batch",
        "16",
        "--pp",
        "2",
        "--dp",
        "4",
        "--export",
    ]
    assert main([*question, "deepspeed"]) == 0
    kept = capsys.readouterr()
    assert json.loads(kept.out)["train_batch_size"] == 16
    assert "PipelineModule" in kept.err
    assert "slower than the fastest" in kept.err  # which is interleaved
    # what no layout of the question can be
    assert main([*question, "torchtitan", "--zero", "1"]) != 0
    assert "--zero 2 or 3" in capsys.readouterr().err


def test_each_framework_has_three_plans_or_more():
    assert set(PLANS) == set(FRAMEWORKS)
    assert min(map(len, PLANS.values())) >= 3
