"""GPT: an ordinary single-device decoder that knows nothing of parallelism.

Pre-norm blocks (Radford et al. 2019); RMSNorm (Zhang and Sennrich 2019), SwiGLU (Shazeer 2020),
rotary positions (Su et al. 2021) and grouped-query attention (Ainslie et al. 2023) by
configuration. Shapes in comments: b sequences, s tokens, h hidden, a heads, d head size, V
vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import ModelConfig
from .first_values import initialize

IGNORED = -100  # a target that counts for nothing: padding, or a masked token


class GPT(nn.Module):
    """A decoder-only transformer.

    `gpt(tokens)` with (b, s) int64 gives logits (b, s, V); `gpt(tokens, targets)` gives the loss
    *sum* (0-dim float) and the *count* of targets (0-dim int64), because a mean of means is wrong
    as soon as the counts differ. Weights are drawn per parameter from (seed, name), so every layout
    of the same model starts from the same numbers (`init`: see first_values.py); on the meta device
    they are not drawn. `loss`, `positions` (of the tokens that are given: 0, 1, …), a layer's
    `project` and `core` are attributes so that a layout may put its own way of doing the same in
    their place.
    """

    def __init__(self, config: ModelConfig, seed: int = 0, init: str = "gpt2") -> None:
        super().__init__()
        self.config, self.loss, self.positions = config, loss_sum_and_count, torch.arange
        self.token_embedding = nn.Embedding(config.vocab, config.hidden)
        if config.positions == "learned":
            self.position_embedding = nn.Embedding(config.seq, config.hidden)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = make_norm(config)
        self.head = nn.Linear(config.hidden, config.vocab, bias=False)
        if config.tied:
            self.head.weight = self.token_embedding.weight
        if self.token_embedding.weight.device.type != "meta":
            initialize(self, config, seed, init)

    def forward(
        self, tokens: Tensor, targets: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head_loss(x, targets)

    # (b, s) -> (b, s, h)
    def embed(self, tokens: Tensor) -> Tensor:
        """What the first block reads: token embeddings, plus position embeddings if they are
        learned."""
        x = self.token_embedding(tokens)
        if self.config.positions == "learned":
            x = x + self.position_embedding(
                self.positions(tokens.shape[1], device=tokens.device).expand_as(tokens)
            )
        return x

    def head_loss(self, x: Tensor, targets: Tensor | None) -> Tensor | tuple[Tensor, Tensor]:
        """What the last block's output says: logits (b, s, V), or with targets their loss sum and
        count."""
        logits = self.head(self.final_norm(x))
        return logits if targets is None else self.loss(logits, targets)


def loss_sum_and_count(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy summed over the targets that count (0-dim float), and how many they are (0-dim
    int64).

    `logits` (…, V) float, `targets` (…) int64 with IGNORED where nothing is to be predicted.
    """
    loss = F.cross_entropy(
        logits.flatten(0, -2).float(), targets.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return loss, (targets != IGNORED).sum()


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm, self.attention = make_norm(config), Attention(config)
        self.mlp_norm, self.mlp = make_norm(config), MLP(config)

    # (b, s, h) -> (b, s, h)
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


def apply_each(x: Tensor, *layers: nn.Module) -> tuple[Tensor, ...]:
    """Every layer's output for the same input."""
    return tuple(layer(x) for layer in layers)


class Attention(nn.Module):
    """Causal self-attention; key/value heads may be shared by groups of query heads."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, self.project, self.positions = config, apply_each, torch.arange
        d = config.head_dim
        self.query = nn.Linear(config.hidden, config.heads * d, bias=config.bias)
        self.key = nn.Linear(config.hidden, config.kv_heads * d, bias=config.bias)
        self.value = nn.Linear(config.hidden, config.kv_heads * d, bias=config.bias)
        self.core = AttentionCore(config)
        self.output = nn.Linear(config.heads * d, config.hidden, bias=config.bias)

    # (b, s, h) -> (b, s, h)
    def forward(self, x: Tensor) -> Tensor:
        projected = self.project(x, self.query, self.key, self.value)
        q, k, v = (y.unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2) for y in projected)
        if self.config.positions == "rope":  # each (b, a, s, d)
            q, k = (rotate(x, self.positions) for x in (q, k))
        return self.output(self.core(q, k, v).transpose(1, 2).flatten(2))


class AttentionCore(nn.Module):
    """Each token's mixture of the values of the tokens up to it, fused (sdpa) or written out
    (explicit). No parameters."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.fused, self.group = config.attention == "sdpa", config.heads // config.kv_heads

    # (b, a, s, d), k and v with a/group -> (b, a, s, d)
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.fused:
            return F.scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=self.group > 1
            )
        if self.group > 1:
            k, v = (x.repeat_interleave(self.group, dim=1) for x in (k, v))
        s, d = q.shape[-2:]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d)  # (b, a, s, s)
        future = torch.ones(s, s, dtype=torch.bool, device=q.device).triu(1)
        return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


class MLP(nn.Module):
    """down(gelu(up(x))), or with SwiGLU down(silu(gate(x)) · up(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.project = apply_each
        if config.activation == "swiglu":
            self.gate = nn.Linear(config.hidden, config.ffn, bias=config.bias)
        self.up = nn.Linear(config.hidden, config.ffn, bias=config.bias)
        self.down = nn.Linear(config.ffn, config.hidden, bias=config.bias)
        self.gated = config.activation == "swiglu"

    # (b, s, h) -> (b, s, h)
    def forward(self, x: Tensor) -> Tensor:
        if self.gated:
            gate, up = self.project(x, self.gate, self.up)
            return self.down(F.silu(gate) * up)
        (up,) = self.project(x, self.up)
        return self.down(F.gelu(up))


def make_norm(config: ModelConfig) -> nn.Module:
    """The configured normalisation over the last dim."""
    if config.norm == "rmsnorm":
        return nn.RMSNorm(config.hidden, eps=1e-5)
    return nn.LayerNorm(config.hidden, bias=config.bias)


def rotate(
    x: Tensor, positions: Callable[..., Tensor] = torch.arange, base: float = 10000.0
) -> Tensor:
    """Rotary positions: turn each pair (i, i + d/2) of x (b, a, s, d) by its token's position times
    base^(−2i/d). `positions(s)` are those of its s tokens."""
    s, d = x.shape[-2:]
    frequency = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    # (s, d/2)
    angle = positions(s, device=x.device, dtype=torch.float32)[:, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, left * sin + right * cos), dim=-1)
