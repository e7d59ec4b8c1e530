"""Layouts that are exported, by framework: a few GPUs, and what was published."""

from __future__ import annotations

from lab_utils.config import TrainConfig

_BIG = dict(micro_batch=1, precision="bf16-pure", sequence_parallel=True)


def _405b(**flags) -> TrainConfig:
    """As in Grattafiori et al. 2024, table 4: tp 8, pp 16."""
    return TrainConfig.of("llama3.1-405b", tp=8, pp=16, zero=1, **flags, **_BIG)


PLANS: dict[str, dict[str, TrainConfig]] = {
    "megatron": {
        "405B, uneven stages, interleaved": _405b(
            dp=128, virtual_stages=7, schedule="interleaved", global_batch=2048
        ),
        "405B, sequences of 131,072": _405b(
            seq=131_072, dp=8, cp=16, recompute="full", global_batch=128
        ),
        "175B, all states on every rank": TrainConfig.of(
            "gpt3-175b", dp=4, tp=8, pp=12, global_batch=1536, recompute="selective", **_BIG
        ),
        "70B, four stages a rank": TrainConfig.of(
            "llama3-70b",
            **dict(dp=8, tp=8, pp=4, zero=1, virtual_stages=4, schedule="interleaved"),
            global_batch=512,
            **_BIG,
        ),
        "8B, ZeRO-3": TrainConfig.of("llama3-8b", dp=8, tp=2, zero=3, global_batch=64, **_BIG),
        "GPT-2 in fp16, ZeRO-2": TrainConfig.of(
            "gpt2-xl", dp=8, zero=2, global_batch=64, micro_batch=1, precision="fp16"
        ),
        "heads swapped for tokens, offloaded": TrainConfig.of(
            "llama3-8b",
            **dict(dp=2, cp=4, cp_kind="all-to-all", zero=1, offload=True),
            **dict(global_batch=16, micro_batch=1, precision="bf16", optimizer="sgd"),
        ),
    },
    "torchtitan": {
        "8B, FSDP": TrainConfig.of(
            "llama3-8b", dp=64, zero=3, global_batch=256, micro_batch=2, precision="bf16"
        ),
        "8B, replicas": TrainConfig.of(
            "llama3-8b", dp=2, tp=8, global_batch=64, recompute="full", **_BIG
        ),
        "70B, a pipeline": TrainConfig.of(
            "llama3-70b",
            **dict(dp=8, tp=8, pp=4, zero=2, virtual_stages=2, schedule="interleaved"),
            global_batch=512,
            **_BIG,
        ),
        "8B, long sequences": TrainConfig.of(
            "llama3-8b",
            **dict(seq=65_536, dp=2, cp=8, tp=2, zero=3, recompute="selective"),
            global_batch=16,
            **_BIG,
        ),
        "8B, without sequence parallelism, offloaded": TrainConfig.of(
            "llama3-8b",
            **dict(dp=4, tp=2, zero=3, offload=True, clip=1.0, recompute="full"),
            **dict(global_batch=16, micro_batch=1, precision="fp32"),
        ),
    },
    "deepspeed": {
        "8B, ZeRO-3, offloaded": TrainConfig.of(
            "llama3-8b",
            **dict(dp=8, zero=3, offload=True, clip=1.0),
            **dict(global_batch=64, micro_batch=2, precision="bf16"),
        ),
        "a pipeline": TrainConfig.of(
            "gpt2-xl", dp=2, pp=4, zero=1, global_batch=32, micro_batch=1, precision="fp16"
        ),
        "heads swapped for tokens": TrainConfig.of(
            "llama3-8b",
            **dict(dp=4, cp=2, cp_kind="all-to-all", zero=3, recompute="full"),
            **dict(global_batch=64, micro_batch=1, precision="bf16-pure"),
        ),
        "AutoTP": TrainConfig.of(
            "llama3-8b", dp=4, tp=2, zero=2, global_batch=16, micro_batch=2, optimizer="sgd"
        ),
    },
}


def words_of(text: str) -> tuple[dict[str, str], list[str]]:
    """(environment, what follows the script's name) of an exported command."""
    import shlex

    words = shlex.split(text.replace("\\\n", " ").replace("$LR", "1e-4"))
    launcher = words.index("torchrun")
    script = next(
        i for i, word in enumerate(words) if word == "pretrain_gpt.py" or word == "torchtitan.train"
    )
    return dict(word.split("=", 1) for word in words[:launcher]), words[script + 1 :]
