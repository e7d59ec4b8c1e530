"""The model's forward pass over values without numbers: model.py line by line, so that what lives
here lives as long there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod

from ...config import TrainConfig
from ...config.flag import AUTOCAST_BYTES
from .attention import fused_attention, masked, mix, repeat, scaled_products, softmax
from .context import ring_attention, swapped
from .float8 import float8_linear
from .heads import Heads, join_heads, rotate, split_heads
from .kernels import INDEX, Torch
from .live import Storage, Value
from .messages import Message
from .norms import layer_norm, rms_norm
from .tape import Leaf


class Program:
    """One rank's part of the model, with parameters of these `shapes`. `leaves`: these by name, in
    the order of the forward pass.

    Every function takes and gives what its namesake in model.py does; `project`, `leave` and `loss`
    are attributes so that tensor parallelism may put its own in their place. `messages`: (scope,
    Message) in the order in which they leave.
    """

    def __init__(
        self,
        torch: Torch,
        config: TrainConfig,
        shapes: Mapping[str, tuple[int, ...]],
        cp_rank: int = 0,
    ) -> None:
        self.torch, self.config, self.model = torch, config, config.model
        width = 2 if config.precision == "bf16-pure" else 4
        self.leaves: dict[str, Leaf] = {}
        for name, shape in shapes.items():
            self.leaves[name] = Leaf(
                Value(Storage(torch, prod(shape) * width, "parameters"), prod(shape), width),
                shape,
                name,
                "gradients",
            )
        self.inside = AUTOCAST_BYTES.get(config.precision, 0)
        self.cp_rank, self.messages = cp_rank, []
        self.recomputed = set(config.recomputed_layers())

    def send(self, op: str, axis: str, nbytes: int) -> None:
        """Enter a message of activations under the current scope and phase."""
        message = Message(op, axis, "activation", self.torch.phase, nbytes)
        self.messages.append((self.torch.scope, message))

    def value_of(self, name: str) -> Value | None:
        """A parameter of this rank, if the model has it."""
        leaf = self.leaves.get(name)
        return None if leaf is None else leaf.value

    # -- the model ---------------------------------------------------------------------------------

    def embed(self, tokens: Value) -> Value:
        """What the first block reads."""
        torch, h = self.torch, self.model.hidden
        self.torch.enter("token_embedding")
        x = torch.embedding(self.value_of("token_embedding.weight"), tokens, tokens.numel, h)
        if self.model.positions == "learned":
            self.torch.enter("position_embedding")
            x = torch.add(
                x,
                torch.embedding(
                    self.value_of("position_embedding.weight"),
                    torch.new(self.config.rank_seq, INDEX),
                    tokens.numel,
                    h,
                ),
            )
        return x

    def block(self, layer: int, x: Value) -> Value:
        """x + attention(norm(x)), then the same with the MLP."""
        name = f"blocks.{layer}"
        self.torch.enter(f"{name}.attention_norm")
        y = self._then_add(
            x,
            self.attention(name, self.norm(f"{name}.attention_norm", x)),
            f"{name}.attention.residual",
        )
        self.torch.enter(f"{name}.mlp_norm")
        return self._then_add(
            y, self.mlp(name, self.norm(f"{name}.mlp_norm", y)), f"{name}.mlp.residual"
        )

    def _then_add(self, x: Value, y: Value, scope: str) -> Value:
        self.torch.enter(scope)
        return self.torch.add(x, y)

    def norm(self, name: str, x: Value) -> Value:
        """The configured normalisation."""
        self.torch.enter(name)
        weight = self.value_of(f"{name}.weight")
        if self.model.norm == "rmsnorm":
            return rms_norm(self.torch, x, weight)
        return layer_norm(self.torch, x, weight, self.value_of(f"{name}.bias"))

    def attention(self, name: str, x: Value) -> Value:
        """Attention.forward, with the rank's heads."""
        model, name = self.model, f"{name}.attention"
        projected = self.project(x, f"{name}.query", f"{name}.key", f"{name}.value")
        d = model.head_dim
        tokens = projected[0].numel // self._out(f"{name}.query")
        s = self.config.rank_seq
        b = tokens // s
        heads, groups = (
            Heads(b, self._out(f"{name}.query") // d, s, d),
            Heads(b, self._out(f"{name}.key") // d, s, d),
        )
        q, k, v = (
            split_heads(self.torch, y, like)
            for y, like in zip(projected, (heads, groups, groups), strict=True)
        )
        if model.positions == "rope":
            self.torch.enter(f"{name}.rotate")
            q, k = rotate(self.torch, q, heads), rotate(self.torch, k, groups)
        self.torch.enter(f"{name}.core")
        joined = join_heads(self.torch, self.core(name, q, k, v, heads, groups), heads)
        return self.leave(f"{name}.output", joined)

    def core(self, name: str, q: Value, k: Value, v: Value, heads: Heads, groups: Heads) -> Value:
        """The layer's `core`, wherever its tokens are. `heads`, `groups`: sizes of q, of k and v
        on this rank."""
        context, kernel = self.config.parallel, self._core
        if context.cp > 1 and context.cp_kind == "all-to-all":
            return swapped(self, q, k, v, heads, groups)
        if context.cp > 1:
            kernel = partial(ring_attention, self)
        return self.selective(kernel, q, k, v, heads, groups)

    def selective(
        self,
        kernel: Callable[..., Value],
        q: Value,
        k: Value,
        v: Value,
        heads: Heads,
        groups: Heads,
    ) -> Value:
        """The kernel, recomputed if the policy is selective."""
        if self.config.recompute != "selective":
            return kernel(q, k, v, heads, groups)
        return self.checkpoint(
            lambda q, k, v: kernel(q, k, v, heads, groups), q, k, v, like=(heads, groups, groups)
        )

    def _core(self, q: Value, k: Value, v: Value, heads: Heads, groups: Heads) -> Value:
        torch = self.torch
        if self.model.attention == "sdpa":
            return fused_attention(torch, q, k, v, heads, groups)
        times = heads.a // groups.a
        if times != 1:
            k, v = (repeat(torch, x, groups, times) for x in (k, v))
        scores = scaled_products(torch, q, k, heads)
        future = torch.new(heads.s * heads.s, 1)
        future = torch.new(heads.s * heads.s, 1, future.nbytes)
        return mix(torch, softmax(torch, masked(torch, scores, future)), v, heads)

    def mlp(self, name: str, x: Value) -> Value:
        """MLP.forward."""
        name = f"{name}.mlp"
        if self.model.activation == "swiglu":
            gate, up = self.project(x, f"{name}.gate", f"{name}.up")
            self.torch.enter(f"{name}.activation")
            return self.leave(f"{name}.down", self.torch.gated(gate, up))
        (up,) = self.project(x, f"{name}.up")
        self.torch.enter(f"{name}.activation")
        return self.leave(f"{name}.down", self.torch.activation(up))

    def head_loss(self, x: Value, targets: Value) -> Value:
        """The loss of the last block's output."""
        logits = self.project_out(self.norm("final_norm", x))
        self.torch.enter("loss")
        return self.loss(logits, targets)

    # -- what a layout may replace -----------------------------------------------------------------

    def _out(self, name: str) -> int:
        return self.leaves[f"{name}.weight"].shape[0]

    def _linear(self, name: str, x: Value, weight: str | None = None) -> Value:
        self.torch.enter(name)
        out, inner = self.leaves[weight or f"{name}.weight"].shape
        in_eight_bits = self.config.precision == "fp8" and name.startswith("blocks.")
        linear = partial(float8_linear, self.torch) if in_eight_bits else self.torch.linear
        return linear(
            x, self.value_of(weight or f"{name}.weight"), self.value_of(f"{name}.bias"), out, inner
        )

    def project(self, x: Value, *names: str) -> tuple[Value, ...]:
        """Every named layer's output for the same input."""
        return tuple(self._linear(name, x) for name in names)

    def leave(self, name: str, x: Value) -> Value:
        """The layer that gives the residual stream its summand."""
        return self._linear(name, x)

    def project_out(self, x: Value) -> Value:
        """The logits."""
        return self._linear("head", x, "token_embedding.weight" if self.model.tied else None)

    def loss(self, logits: Value, targets: Value) -> Value:
        """The loss sum."""
        loss = self.torch.cross_entropy(logits, targets)
        self.count(targets)
        return loss

    def count(self, targets: Value) -> Value:
        """How many targets count."""
        counted = self.torch.new(targets.numel, 1, targets.nbytes)
        return self.torch.new(1, INDEX, counted.nbytes)

    # -- recomputation -----------------------------------------------------------------------------

    def run_block(self, layer: int, x: Value) -> Value:
        """The block, saved or recomputed as the configuration says."""
        if layer in self.recomputed:
            return self.checkpoint(lambda x: self.block(layer, x), x)
        return self.block(layer, x)

    def checkpoint(
        self, function: Callable[..., Value], *inputs: Value, like: tuple[Heads, ...] = ()
    ) -> Value:
        """As parallel.recompute's: the inputs are saved, and the backward pass runs `function`
        again."""
        torch = self.torch
        if not torch.recording:
            return function(*inputs)
        with torch.unrecorded(), torch.casting(torch.autocast, caching=False):
            y = function(*inputs)
        autocast, layouts = torch.autocast, [x.layout for x in inputs]

        def backward(saved: list[Value], gradients: list[Value]) -> tuple[Value, ...]:
            again = [Leaf(x.detach()) for x in saved]
            for leaf, layout, heads in zip(again, layouts, like, strict=False):
                leaf.value.layout = layout
                leaf.relayout = lambda g, layout=layout, heads=heads: (
                    not heads.alike(g.layout, layout)
                )
            torch.phase, torch.recording = "recompute", True
            with torch.casting(autocast):
                result = function(*(leaf.value for leaf in again))
            torch.phase, torch.recording = "backward", False
            root = result.node, result.slot, gradients[0]
            del result
            torch.go_back([root])
            return tuple(leaf.take() for leaf in again)

        torch.record(y, inputs, inputs, backward)
        return y
