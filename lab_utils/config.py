"""What one training run is: frozen dataclasses that validate themselves. No torch in here.

`TrainConfig` is the noun of the whole package: `estimate(config)` predicts it, `train(config)` runs
it, and both return a Report. A field's name is the command line's flag with underscores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from functools import cache
from math import isfinite, isqrt
from typing import Any, Literal, get_args, get_type_hints

from .i18n import t

Norm = Literal["layernorm", "rmsnorm"]
Activation = Literal["gelu", "swiglu"]
Positions = Literal["learned", "rope"]
Attention = Literal["sdpa", "explicit"]
Schedule = Literal["gpipe", "1f1b", "interleaved", "zero-bubble"]
Precision = Literal["fp32", "bf16", "bf16-pure", "fp16"]
OptimizerName = Literal["sgd", "adamw", "adafactor", "lion", "adam8bit"]
GradientSync = Literal["bucketed", "naive"]
ContextParallel = Literal["ring", "all-to-all"]


# the most of a count: far beyond any run, and still answered within seconds
_MOST, _MOST_OF = 10**9, {"layers": 10_000, "pp": 256, "virtual-stages": 64}
# of fp32, in which fp16's loss is scaled
_LARGEST_SCALE = (2 - 2**-23) * 2.0**127


class ConfigError(ValueError):
    """A configuration that cannot be run; the message says what was wrong and what would work."""


def _check(condition: bool, en: str, zh: str) -> None:
    if not condition:
        raise ConfigError(t(en, zh))


def _flag(default: Any, en: str, zh: str) -> Any:
    return field(default=default, metadata={"help": (en, zh)})


_hints = cache(get_type_hints)


def _check_choices(config: Any) -> None:
    """Every Literal field holds one of its words; every int is at least 1 unless its default is
    0."""
    hints = _hints(type(config))
    for f in fields(config):
        value, name = getattr(config, f.name), f.name.replace("_", "-")
        words = get_args(hints[f.name])
        if words and all(isinstance(w, str) for w in words):
            _check(
                value in words,
                f"--{name} {value!r} is not known: choose {', '.join(words)}.",
                f"--{name} 没有 {value!r} 这个取值，可选：{'、'.join(words)}。",
            )
        elif hints[f.name] is int:
            least = 0 if f.default == 0 else 1
            _check(
                isinstance(value, int) and not isinstance(value, bool) and value >= least,
                f"--{name} must be a whole number from {least} up, not {value!r}.",
                f"--{name} 应为不小于 {least} 的整数，而不是 {value!r}。",
            )
            most = _MOST_OF.get(name, _MOST)
            _check(
                name == "seed" or value <= most,
                f"--{name} must be at most {most:,}, not {value:,}.",
                f"--{name} 最多为 {most:,}，而不是 {value:,}。",
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)


def divisors(n: int) -> list[int]:
    """The whole numbers that divide n, ascending."""
    small = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def _nearest(n: int, degree: int) -> str:
    """The divisors of n on either side of `degree`, to offer instead of it."""
    around = [
        max((d for d in divisors(n) if d < degree), default=None),
        min((d for d in divisors(n) if d > degree), default=None),
    ]
    return ", ".join(str(d) for d in around if d is not None)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of one GPT. Sizes are in elements; `None` means the usual choice, filled in at
    once."""

    layers: int = _flag(4, "transformer blocks", "Transformer 层数")
    hidden: int = _flag(64, "width of the residual stream", "残差流的宽度")
    heads: int = _flag(4, "attention heads", "注意力头数")
    kv_heads: int | None = _flag(
        None,
        "key/value heads (grouped-query attention); default: heads",
        "键值头数（分组查询注意力），默认等于头数",
    )
    head_dim: int | None = _flag(
        None, "size of one head; default: hidden / heads", "每个头的维度，默认 hidden / heads"
    )
    ffn: int | None = _flag(
        None,
        "width inside the MLP; default: 4 hidden, for SwiGLU 8/3 hidden rounded up to 8",
        "MLP 内部宽度，默认 4 hidden；SwiGLU 为 8/3 hidden，向上取 8 的倍数",
    )
    vocab: int = _flag(
        256, "vocabulary size (the byte tokenizer needs 256)", "词表大小（字节分词器需要 256）"
    )
    seq: int = _flag(64, "tokens in a sequence", "序列长度（词元数）")
    norm: Norm = _flag("layernorm", "normalisation", "归一化")
    activation: Activation = _flag("gelu", "the MLP's activation", "MLP 的激活函数")
    positions: Positions = _flag("learned", "position encoding", "位置编码")
    attention: Attention = _flag(
        "sdpa", "fused (sdpa) or written out (explicit)", "融合实现（sdpa）或逐步写出（explicit）"
    )
    bias: bool = _flag(True, "biases in linear layers", "线性层是否带偏置")
    tied: bool = _flag(
        False, "the head shares the token embedding's weight", "输出层与词嵌入共享权重"
    )

    def __post_init__(self) -> None:
        _check_choices(self)
        for name, usual in self._usual():
            if getattr(self, name) is None and name != "head_dim":
                object.__setattr__(self, name, usual)
        if self.head_dim is None:
            _check(
                self.hidden % self.heads == 0,
                f"--heads {self.heads} does not divide --hidden {self.hidden}; nearest that do:"
                f" {_nearest(self.hidden, self.heads)} (or give --head-dim).",
                f"--heads {self.heads} 不能整除 --hidden"
                f" {self.hidden}；最接近的可用值：{_nearest(self.hidden, self.heads)}（也可以指定"
                " --head-dim）。",
            )
            object.__setattr__(self, "head_dim", self.hidden // self.heads)
        for name in ("kv_heads", "ffn", "head_dim"):
            _check(
                isinstance(getattr(self, name), int) and 1 <= getattr(self, name) <= _MOST,
                f"--{name.replace('_', '-')} must be a whole number from 1 up (at most {_MOST:,}),"
                f" not {getattr(self, name)!r}.",
                f"--{name.replace('_', '-')} 应为不小于 1 的整数（最多 {_MOST:,}），而不是"
                f" {getattr(self, name)!r}。",
            )
        _check(
            self.heads % self.kv_heads == 0,
            f"--kv-heads {self.kv_heads} does not divide --heads {self.heads}; nearest that do:"
            f" {_nearest(self.heads, self.kv_heads)}.",
            f"--kv-heads {self.kv_heads} 不能整除 --heads"
            f" {self.heads}；最接近的可用值：{_nearest(self.heads, self.kv_heads)}。",
        )
        _check(
            self.positions != "rope" or self.head_dim % 2 == 0,
            f"RoPE turns pairs of numbers, so --head-dim must be even, not {self.head_dim}.",
            f"RoPE 成对旋转，--head-dim 必须是偶数，而不是 {self.head_dim}。",
        )

    def _usual(self) -> Iterator[tuple[str, int]]:
        """What a size is when it is not given."""
        yield "kv_heads", self.heads
        yield "head_dim", self.hidden // self.heads
        yield (
            "ffn",
            4 * self.hidden if self.activation == "gelu" else -(-8 * self.hidden // 3 // 8) * 8,
        )


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """Who works together: the degrees of the mesh axes (dp, pp, cp, tp) and how each axis does its
    part."""

    dp: int = _flag(1, "data-parallel ranks", "数据并行的进程数")
    tp: int = _flag(1, "tensor-parallel ranks", "张量并行的进程数")
    pp: int = _flag(1, "pipeline stages", "流水线阶段数")
    cp: int = _flag(
        1,
        "context-parallel ranks: each holds a part of every sequence",
        "上下文并行的进程数：每个进程持有每条序列的一部分",
    )
    cp_kind: ContextParallel = _flag(
        "ring",
        "how the ranks of --cp attend to one another's tokens: keys and values go round a ring, or"
        " heads are swapped for tokens (all-to-all)",
        "--cp 各进程如何看到彼此的词元：键和值沿环传递，或用头换词元（all-to-all）",
    )
    zero: Literal[0, 1, 2, 3] = _flag(0, "ZeRO stage", "ZeRO 级别")
    sequence_parallel: bool = _flag(
        False, "shard the sequence between tensor-parallel regions", "在张量并行区域之间切分序列"
    )
    schedule: Schedule = _flag("1f1b", "pipeline schedule", "流水线调度")
    virtual_stages: int = _flag(1, "model chunks per pipeline rank", "每个流水线进程持有的模型段数")
    gradient_sync: GradientSync = _flag(
        "bucketed",
        "one all-reduce per bucket, overlapped, or one per gradient",
        "梯度同步方式：分桶并重叠，或逐个梯度 all-reduce",
    )
    offload: bool = _flag(
        False,
        "optimizer states and fp32 weights in the host's memory (with ZeRO)",
        "优化器状态与 fp32 权重放在主机内存（配合 ZeRO）",
    )
    bucket_mib: float = _flag(4.0, "size of a gradient bucket in MiB", "梯度桶大小（MiB）")

    def __post_init__(self) -> None:
        _check_choices(self)
        _check(
            self.zero in (0, 1, 2, 3),
            f"--zero must be 0, 1, 2 or 3, not {self.zero!r}.",
            f"--zero 只能是 0、1、2 或 3，而不是 {self.zero!r}。",
        )
        _check(
            _is_number(self.bucket_mib) and self.bucket_mib * 2**20 >= 1,
            f"--bucket-mib must be above 0, and at least a byte (2**-20), not {self.bucket_mib!r}.",
            f"--bucket-mib 必须大于 0，且至少为一个字节（2**-20），而不是 {self.bucket_mib!r}。",
        )

    @property
    def world_size(self) -> int:
        """Ranks in all: the product of the axes."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def replicas(self) -> int:
        """Ranks that hold the same weights, read other tokens, and so sum their gradients: dp × cp.
        ZeRO cuts states over all of them."""
        return self.dp * self.cp

    @property
    def bucket_bytes(self) -> int:
        """`bucket_mib` in bytes."""
        return int(self.bucket_mib * 2**20)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run. Batches count sequences; `micro_batch` None is the rank's whole share at
    once."""

    model: ModelConfig = field(default_factory=ModelConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    global_batch: int = _flag(
        24, "sequences per optimizer step, over all ranks", "每个优化器步的序列数（所有进程合计）"
    )
    micro_batch: int | None = _flag(
        None,
        "sequences per forward pass on one rank; default: global batch / dp",
        "每个进程一次前向的序列数，默认 global batch / dp",
    )
    precision: Precision = _flag("fp32", "number format", "数值精度")
    recompute: str = _flag(
        "none",
        "none, selective, full, or layers like 0,2,5",
        "重计算：none、selective、full，或层号如 0,2,5",
    )
    optimizer: OptimizerName = _flag("adamw", "optimizer", "优化器")
    lr: float | None = _flag(
        None,
        "learning rate; default: 3e-3 for adamw, 0.1 for sgd",
        "学习率，默认 adamw 3e-3、sgd 0.1",
    )
    clip: float = _flag(
        0.0,
        "clip gradients to this global norm; 0 switches it off",
        "按全局范数裁剪梯度，0 表示关闭",
    )
    loss_scale: float = _flag(65536.0, "first loss scale under fp16", "fp16 的初始损失缩放系数")
    loss_scale_window: int = _flag(
        2000,
        "good steps after which the loss scale doubles",
        "损失缩放系数翻倍前需要连续正常的步数",
    )
    steps: int = _flag(30, "optimizer steps", "优化器步数")
    seed: int = _flag(0, "seed of weights and data", "权重与数据的随机种子")
    corpus: str | None = _flag(
        None,
        "a UTF-8 text file; default: the documentation and sources that Python carries",
        "UTF-8 文本文件，默认使用 Python 自带的文档与源码",
    )

    def __post_init__(self) -> None:
        _check_choices(self)
        dp, batch = self.parallel.dp, self.global_batch
        _check(
            batch % dp == 0,
            f"--global-batch {batch} cannot be shared equally by --dp {dp} ranks; nearest --dp that"
            f" can: {_nearest(batch, dp)}.",
            f"--global-batch {batch} 不能由 --dp {dp} 个进程平分；最接近的可用"
            f" --dp：{_nearest(batch, dp)}。",
        )
        for name, usual in self._usual():
            if getattr(self, name) is None:
                object.__setattr__(self, name, usual)
        share, micro = batch // dp, self.micro_batch
        _check(
            isinstance(micro, int) and not isinstance(micro, bool),
            f"--micro-batch must be a whole number from 1 up, not {micro!r}.",
            f"--micro-batch 应为不小于 1 的整数，而不是 {micro!r}。",
        )
        _check(
            1 <= micro <= share and share % micro == 0,
            f"--micro-batch {micro} does not divide a rank's share of {share} sequences; nearest"
            f" that do: {_nearest(share, micro)}.",
            f"--micro-batch {micro} 不能整除每个进程分到的 {share}"
            f" 条序列；最接近的可用值：{_nearest(share, micro)}。",
        )
        _check(
            _is_number(self.lr) and self.lr > 0,
            f"--lr must be above 0, not {self.lr!r}.",
            f"--lr 必须大于 0，而不是 {self.lr!r}。",
        )
        _check(
            _is_number(self.clip) and self.clip >= 0,
            f"--clip must be 0 (off) or above, not {self.clip!r}.",
            f"--clip 必须不小于 0（0 为关闭），而不是 {self.clip!r}。",
        )
        _check(
            _is_number(self.loss_scale) and 1 <= self.loss_scale <= _LARGEST_SCALE,
            f"--loss-scale must lie between 1 and fp32's largest number ({_LARGEST_SCALE:.3g}), not"
            f" {self.loss_scale!r}.",
            f"--loss-scale 应介于 1 与 fp32 的最大值（{_LARGEST_SCALE:.3g}）之间，而不是"
            f" {self.loss_scale!r}。",
        )
        self.recomputed_layers()

    def _usual(self) -> Iterator[tuple[str, int | float]]:
        """What a number is when it is not given."""
        yield "micro_batch", self.global_batch // self.parallel.dp
        yield "lr", 0.1 if self.optimizer == "sgd" else 3e-3

    @classmethod
    def of(cls, preset: str = "tiny", **flags: Any) -> TrainConfig:
        """A configuration from flat flags, as on the command line: `TrainConfig.of("tiny", dp=2,
        steps=30)`.

        `preset` names a model shape (see presets.PRESETS); flags override it. Raises ConfigError.
        """
        from .presets import preset_shape

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
            _check(
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
        _check(
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


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The machine that an estimate is for. Rates are what is achieved, not the data sheet's, and
    say so in `sources`.

    Bandwidths are one-way, per rank, in bytes per second; latencies are per message, in seconds.
    `link` is inside a node, `network` between nodes, `host_link` to the host's memory. `None`:
    unknown, and the time is not estimated.

    `flops_per_second` is of large bf16 matrix products, `flops_by_precision` of others; a product
    of (m, k) by (k, n) reaches it ÷ (1 + matmul_half_size·(1/m + 1/k + 1/n)), attention times
    `attention_efficiency`. The other efficiencies multiply their rate. `launch_seconds` is what
    every operation costs beside its work. `rings_across_nodes`: how many of a node's ports one
    collective uses (None: one for each of its ranks in the node). `cores`: how many ranks compute
    at once where ranks share processors. Measured on the very machine and then used first:
    `collectives` {ranks: {op: ((bytes, seconds), …)}} and `kernel_bytes_per_second` {kernel: rate}
    of element-wise kernels that are slower than memory, and `memory_share_by_size` ((bytes, share
    of that rate), …), ascending, which is left where tensors are so large. `kernels`: "cpu",
    "cuda" or "fused", whose rules say what is saved and moved (estimate.program.conventions).
    """

    name: str
    ranks_per_node: int = 8
    memory_bytes: float | None = None
    flops_per_second: float | None = None
    # of the data sheet, bf16: what MFU is counted against
    peak_flops_per_second: float | None = None
    flops_by_precision: Mapping[str, float] = field(default_factory=dict)
    matmul_efficiency: float = 1.0
    attention_efficiency: float = 1.0
    matmul_half_size: float = 0.0
    hbm_bytes_per_second: float | None = None
    hbm_efficiency: float = 1.0
    launch_seconds: float = 0.0
    link_bytes_per_second: float | None = None
    link_latency_seconds: float = 0.0
    link_efficiency: float = 1.0
    network_bytes_per_second: float | None = None
    network_latency_seconds: float = 0.0
    network_efficiency: float = 1.0
    rings_across_nodes: int | None = None
    overlaps: bool = True  # whether messages travel while a rank computes
    # by how much of their time they slow down what they travel under: both need memory and
    # processors
    overlap_cost: float = 0.0
    host_link_bytes_per_second: float | None = None
    host_memory_bytes_per_second: float | None = None
    cores: int | None = None
    collectives: Mapping[int, Mapping[str, tuple[tuple[float, float], ...]]] = field(
        default_factory=dict
    )
    kernel_bytes_per_second: Mapping[str, float] = field(default_factory=dict)
    memory_share_by_size: tuple[tuple[float, float], ...] = ()
    kernels: Literal["cpu", "cuda", "fused"] = "cpu"
    sources: Mapping[str, str] = field(default_factory=dict)

    def replace(self, **changes: Any) -> Cluster:
        """The same cluster with some fields changed."""
        return replace(self, **changes)
