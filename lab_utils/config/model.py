"""The shape of a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .flag import MOST, Activation, Attention, Norm, Positions, check, check_choices, flag, nearest


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of one GPT. Sizes are in elements; `None` means the usual choice, filled in at
    once."""

    layers: int = flag(4, "transformer blocks", "Transformer 层数")
    hidden: int = flag(64, "width of the residual stream", "残差流的宽度")
    heads: int = flag(4, "attention heads", "注意力头数")
    kv_heads: int | None = flag(
        None,
        "key/value heads (grouped-query attention); default: heads",
        "键值头数（分组查询注意力），默认等于头数",
    )
    head_dim: int | None = flag(
        None, "size of one head; default: hidden / heads", "每个头的维度，默认 hidden / heads"
    )
    ffn: int | None = flag(
        None,
        "width inside the MLP; default: 4 hidden, for SwiGLU 8/3 hidden rounded up to 8",
        "MLP 内部宽度，默认 4 hidden；SwiGLU 为 8/3 hidden，向上取 8 的倍数",
    )
    vocab: int = flag(
        256, "vocabulary size (the byte tokenizer needs 256)", "词表大小（字节分词器需要 256）"
    )
    seq: int = flag(64, "tokens in a sequence", "序列长度（词元数）")
    norm: Norm = flag("layernorm", "normalisation", "归一化")
    activation: Activation = flag("gelu", "the MLP's activation", "MLP 的激活函数")
    positions: Positions = flag("learned", "position encoding", "位置编码")
    attention: Attention = flag(
        "sdpa", "fused (sdpa) or written out (explicit)", "融合实现（sdpa）或逐步写出（explicit）"
    )
    bias: bool = flag(True, "biases in linear layers", "线性层是否带偏置")
    tied: bool = flag(
        False, "the head shares the token embedding's weight", "输出层与词嵌入共享权重"
    )

    def __post_init__(self) -> None:
        check_choices(self)
        for name, usual in self._usual():
            if getattr(self, name) is None and name != "head_dim":
                object.__setattr__(self, name, usual)
        if self.head_dim is None:
            check(
                self.hidden % self.heads == 0,
                f"--heads {self.heads} does not divide --hidden {self.hidden}; nearest that do:"
                f" {nearest(self.hidden, self.heads)} (or give --head-dim).",
                f"--heads {self.heads} 不能整除 --hidden"
                f" {self.hidden}；最接近的可用值：{nearest(self.hidden, self.heads)}（也可以指定"
                " --head-dim）。",
            )
            object.__setattr__(self, "head_dim", self.hidden // self.heads)
        for name in ("kv_heads", "ffn", "head_dim"):
            check(
                isinstance(getattr(self, name), int) and 1 <= getattr(self, name) <= MOST,
                f"--{name.replace('_', '-')} must be a whole number from 1 up (at most {MOST:,}),"
                f" not {getattr(self, name)!r}.",
                f"--{name.replace('_', '-')} 应为不小于 1 的整数（最多 {MOST:,}），而不是"
                f" {getattr(self, name)!r}。",
            )
        check(
            self.heads % self.kv_heads == 0,
            f"--kv-heads {self.kv_heads} does not divide --heads {self.heads}; nearest that do:"
            f" {nearest(self.heads, self.kv_heads)}.",
            f"--kv-heads {self.kv_heads} 不能整除 --heads"
            f" {self.heads}；最接近的可用值：{nearest(self.heads, self.kv_heads)}。",
        )
        check(
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
