"""A whole training run, made from flat flags and taken apart into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from typing import Any

from .flag import (
    Init,
    LrSchedule,
    OptimizerName,
    Precision,
    check,
    check_choices,
    flag,
    is_number,
    nearest,
)
from .lr_schedule import USUAL_LR, check_rates
from .model import ModelConfig
from .parallel import ParallelConfig
from .presets import preset_shape

# of fp32, in which fp16's loss is scaled
_LARGEST_SCALE = (2 - 2**-23) * 2.0**127


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run. Batches count sequences; `micro_batch` None is the rank's whole share at
    once."""

    model: ModelConfig = field(default_factory=ModelConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    global_batch: int = flag(
        24, "sequences per optimizer step, over all ranks", "每个优化器步的序列数（所有进程合计）"
    )
    micro_batch: int | None = flag(
        None,
        "sequences per forward pass on one rank; default: global batch / dp",
        "每个进程一次前向的序列数，默认 global batch / dp",
    )
    precision: Precision = flag("fp32", "number format", "数值精度")
    recompute: str = flag(
        "none",
        "none, selective, full, or layers like 0,2,5",
        "重计算：none、selective、full，或层号如 0,2,5",
    )
    optimizer: OptimizerName = flag("adamw", "optimizer", "优化器")
    lr: float | None = flag(
        None,
        "learning rate; default: 3e-3, for sgd 0.1, for lion 3e-4, for adafactor 3e-2",
        "学习率，默认 3e-3，sgd 为 0.1，lion 为 3e-4，adafactor 为 3e-2",
    )
    init: Init = flag("gpt2", "how wide weights are first drawn", "权重初始化方式")
    mup_base: int = flag(
        64,
        "hidden size that --lr is meant for, under --init mup",
        "--init mup 时，--lr 所对应的隐藏维度",
    )
    lr_schedule: LrSchedule = flag(
        "constant", "how the learning rate goes on after the warm-up", "预热之后学习率如何变化"
    )
    warmup: int = flag(
        0, "updates in which the learning rate climbs", "学习率线性上升的更新次数（预热）"
    )
    lr_end: float = flag(
        0.1,
        "share of the learning rate at which linear, cosine, wsd and one-cycle end",
        "linear、cosine、wsd 与 one-cycle 结束时学习率所剩的比例",
    )
    weight_decay: float = flag(
        0.0,
        "weight decay of matrices (not embeddings, norms, biases): decoupled, for sgd and adam L2",
        "矩阵的权重衰减（嵌入、归一化与偏置除外）：解耦式；sgd 与 adam 为 L2",
    )
    clip: float = flag(
        0.0,
        "clip gradients to this global norm; 0 switches it off",
        "按全局范数裁剪梯度，0 表示关闭",
    )
    loss_scale: float = flag(65536.0, "first loss scale under fp16", "fp16 的初始损失缩放系数")
    loss_scale_window: int = flag(
        2000,
        "good steps after which the loss scale doubles",
        "损失缩放系数翻倍前需要连续正常的步数",
    )
    steps: int = flag(30, "optimizer steps", "优化器步数")
    seed: int = flag(0, "seed of weights and data", "权重与数据的随机种子")
    corpus: str | None = flag(
        None,
        "a UTF-8 text file; default: the documentation and sources that Python carries",
        "UTF-8 文本文件，默认使用 Python 自带的文档与源码",
    )

    def __post_init__(self) -> None:
        check_choices(self)
        dp, batch = self.parallel.dp, self.global_batch
        check(
            batch % dp == 0,
            f"--global-batch {batch} cannot be shared equally by --dp {dp} ranks; nearest --dp that"
            f" can: {nearest(batch, dp)}.",
            f"--global-batch {batch} 不能由 --dp {dp} 个进程平分；最接近的可用"
            f" --dp：{nearest(batch, dp)}。",
        )
        for name, usual in self._usual():
            if getattr(self, name) is None:
                object.__setattr__(self, name, usual)
        share, micro = batch // dp, self.micro_batch
        check(
            isinstance(micro, int) and not isinstance(micro, bool),
            f"--micro-batch must be a whole number from 1 up, not {micro!r}.",
            f"--micro-batch 应为不小于 1 的整数，而不是 {micro!r}。",
        )
        check(
            1 <= micro <= share and share % micro == 0,
            f"--micro-batch {micro} does not divide a rank's share of {share} sequences; nearest"
            f" that do: {nearest(share, micro)}.",
            f"--micro-batch {micro} 不能整除每个进程分到的 {share}"
            f" 条序列；最接近的可用值：{nearest(share, micro)}。",
        )
        check_rates(self)
        check(
            is_number(self.clip) and self.clip >= 0,
            f"--clip must be 0 (off) or above, not {self.clip!r}.",
            f"--clip 必须不小于 0（0 为关闭），而不是 {self.clip!r}。",
        )
        check(
            is_number(self.loss_scale) and 1 <= self.loss_scale <= _LARGEST_SCALE,
            f"--loss-scale must lie between 1 and fp32's largest number ({_LARGEST_SCALE:.3g}), not"
            f" {self.loss_scale!r}.",
            f"--loss-scale 应介于 1 与 fp32 的最大值（{_LARGEST_SCALE:.3g}）之间，而不是"
            f" {self.loss_scale!r}。",
        )
        self.recomputed_layers()

    def _usual(self) -> Iterator[tuple[str, int | float]]:
        """What a number is when it is not given."""
        yield "micro_batch", self.global_batch // self.parallel.dp
        yield "lr", USUAL_LR.get(self.optimizer, 3e-3)

    @classmethod
    def of(cls, preset: str = "tiny", **flags: Any) -> TrainConfig:
        """A configuration from flat flags, as on the command line: `TrainConfig.of("tiny", dp=2,
        steps=30)`.

        `preset` names a model shape (see presets.PRESETS); flags override it. Raises ConfigError.
        """
        return cls._build(preset_shape(preset), flags)

    def replace(self, **flags: Any) -> TrainConfig:
        """The same run with some flags changed, in whichever part they live.

        What had its usual size keeps to the usual: with twice the heads there are twice the
        key/value heads, and a micro-batch that was the whole share of a rank stays the whole share.
        Another optimizer takes its own usual rate.
        """
        flat = self.to_dict()
        for part in (self.model, self):
            flat.update(
                {name: None for name, usual in part._usual() if getattr(part, name) == usual}
            )
        if flags.get("optimizer", self.optimizer) != self.optimizer:
            flat["lr"] = None
        return self._build({}, flat | flags)

    @classmethod
    def _build(cls, shape: Mapping[str, Any], flags: Mapping[str, Any]) -> TrainConfig:
        known = flag_fields()
        for name in flags:
            check(
                name in known,
                f"there is no flag {name!r}; known: {', '.join(known)}.",
                f"没有 {name!r} 这个参数，可用参数：{'、'.join(known)}。",
            )
        values = {**shape, **flags}
        parts = {
            owner: {k: v for k, v in values.items() if known[k][0] is owner}
            for owner in (ModelConfig, ParallelConfig, cls)
        }
        return cls(
            model=ModelConfig(**parts[ModelConfig]),
            parallel=ParallelConfig(**parts[ParallelConfig]),
            **parts[cls],
        )

    @property
    def micro_batches(self) -> int:
        """m: forward/backward passes of one rank per optimizer step."""
        return self.global_batch // (self.parallel.dp * self.micro_batch)

    @property
    def rank_seq(self) -> int:
        """Tokens of a sequence that one rank holds: all of them, or under cp its share."""
        return self.model.seq // self.parallel.cp

    def recomputed_layers(self) -> list[int]:
        """Block numbers whose activations are recomputed in full; raises ConfigError for a word
        that is none of the known."""
        if self.recompute in ("none", "selective"):
            return []
        if self.recompute == "full":
            return list(range(self.model.layers))
        numbers = str(self.recompute).split(",")
        check(
            all(n.strip().isdecimal() and int(n) < self.model.layers for n in numbers),
            f"--recompute {self.recompute!r}: use none, selective, full, or layer numbers below"
            f" {self.model.layers} like 0,2.",
            f"--recompute {self.recompute!r} 无效：可用 none、selective、full，或小于"
            f" {self.model.layers} 的层号，如 0,2。",
        )
        return sorted({int(n) for n in numbers})

    def to_dict(self) -> dict[str, Any]:
        """All flags, flat, as the report's `config`; `TrainConfig.from_dict` reads them back."""
        flat = asdict(self)
        return {**flat.pop("model"), **flat.pop("parallel"), **flat}

    @classmethod
    def from_dict(cls, flags: Mapping[str, Any]) -> TrainConfig:
        """The configuration of a report; keys that are no flags are ignored."""
        known = flag_fields()
        return cls._build({}, {k: v for k, v in flags.items() if k in known})


def flag_fields() -> dict[str, tuple[type, Field]]:
    """Every flag: name → (the dataclass that holds it, its field), in the order of the command
    line's help."""
    return {
        f.name: (owner, f)
        for owner in (ModelConfig, TrainConfig, ParallelConfig)
        for f in fields(owner)
        if f.default is not MISSING
    }
