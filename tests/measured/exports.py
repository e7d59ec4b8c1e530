"""What Megatron-LM's and torchtitan's own parsers make of our exports, recorded in exports.json:
`make exports` (a scratch environment; both are too large for CI's ordinary run).

torchtitan: its ConfigManager, and its ParallelDims for the product. Megatron: megatron-core's
RankGenerator says who stands with whom. Its parser is in no package: with MEGATRON_LM naming a
checkout of NVIDIA/Megatron-LM, its arguments are parsed *and validated* as pretrain_gpt.py does,
with an H100's compute capability put in, because there is no GPU. Without it what was recorded
before stays.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import types
import typing
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_suffix(".json")
sys.path.insert(0, str(RECORD.parents[1] / "exports"))

from plans import PLANS, words_of  # noqa: E402

from lab_utils.config import TrainConfig  # noqa: E402
from lab_utils.exports import export  # noqa: E402

SMALL = dict(dp=2, tp=2, pp=2, cp=2)


def torchtitan(config: TrainConfig, text: str) -> dict[str, Any]:
    from torchtitan.config.manager import ConfigManager
    from torchtitan.distributed import ParallelDims

    read = ConfigManager().parse_args(words_of(text)[1])
    p = read.parallelism
    dims = ParallelDims(
        dp_replicate=p.data_parallel_replicate_degree,
        dp_shard=p.data_parallel_shard_degree,
        cp=p.context_parallel_degree,
        tp=p.tensor_parallel_degree,
        pp=p.pipeline_parallel_degree,
        ep=1,
        world_size=config.parallel.world_size,
    )
    return {
        "dp": dims.dp_replicate * dims.dp_shard,
        "sharded over": dims.dp_shard * dims.cp,
        **{axis: getattr(dims, axis) for axis in ("cp", "tp", "pp")},
        "schedule": p.pipeline_parallel_schedule if dims.pp > 1 else None,
        "layers a stage": p.pipeline_parallel_layers_per_stage,
        "reshard after forward": p.fsdp_reshard_after_forward,
        "sequence parallel": p.enable_sequence_parallel,
        "batch": [read.training.local_batch_size, read.training.global_batch_size],
        "sequence": read.training.seq_len,
        "layers of the model": len(read.model_spec.model.layers),
        "recompute": type(read.activation_checkpoint).__qualname__,
        "offload": read.training.enable_cpu_offload,
    }


def megatron(config: TrainConfig, text: str) -> dict[str, Any]:
    import torch

    typing.override = getattr(typing, "override", lambda f: f)  # it wants Python 3.12
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, minor=0, name="")
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    from megatron.training.arguments import add_megatron_arguments, validate_args

    environment, words = words_of(text)
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(environment)
    read = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False)).parse_args(words)
    read.rank, read.world_size = 1, config.parallel.world_size
    read._is_global_batch_size_explicitly_specified, read.padded_vocab_size = True, None
    with contextlib.redirect_stdout(None):  # it prints them all
        validate_args(read, {})
    return {
        "dp": read.data_parallel_size,
        "cp": read.context_parallel_size,
        "tp": read.tensor_model_parallel_size,
        "pp": read.pipeline_model_parallel_size,
        "stages a rank": read.virtual_pipeline_model_parallel_size or 1,
        "optimizer sharded": read.use_distributed_optimizer,
        "fsdp": read.data_parallel_sharding_strategy if read.use_megatron_fsdp else None,
        "sequence parallel": read.sequence_parallel,
        "batch": [read.micro_batch_size, read.global_batch_size],
        "weights": str(read.params_dtype),
        "recompute": read.recompute_granularity,
    }


def megatron_ranks() -> dict[str, str]:
    """Who stands with whom on 16 ranks under --use-tp-pp-dp-mapping, and in Megatron's usual
    order."""
    from megatron.core.parallel_state import RankGenerator

    found = {}
    for name, order in (("ours", "tp-cp-ep-pp-dp"), ("usual", "tp-cp-ep-dp-pp")):
        ranks = RankGenerator(ep=1, order=order, **SMALL)
        for axis in SMALL:
            groups = (" ".join(map(str, group)) for group in ranks.get_ranks(axis))
            found[f"{name} {axis}"] = " | ".join(groups)
    return found


def main() -> None:
    before = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    checkout = os.environ.get("MEGATRON_LM")
    record: dict[str, Any] = {
        "versions": {
            name: importlib.metadata.version(name) for name in ("torchtitan", "megatron-core")
        },
        "ranks": megatron_ranks(),
    }
    readers = {"torchtitan": torchtitan}
    if checkout:
        for name in [name for name in sys.modules if name.split(".")[0] == "megatron"]:
            del sys.modules[name]
        sys.path.insert(0, checkout)
        readers["megatron"] = megatron
        said = ["git", "-C", checkout, "log", "-1", "--format=%H of %cs"]
        commit = os.environ.get("MEGATRON_LM_COMMIT") or subprocess.check_output(said, text=True)
        record["versions"]["Megatron-LM"] = commit.strip()
    else:
        record["versions"]["Megatron-LM"] = before["versions"]["Megatron-LM"]
        record["megatron"] = before["megatron"]
    for framework, read in readers.items():
        record[framework] = {}
        for name, config in PLANS[framework].items():
            text = export(config, framework).text
            record[framework][name] = {"text": text.split("\n"), "read": read(config, text)}
            print(f"{framework}, {name}: read")
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
