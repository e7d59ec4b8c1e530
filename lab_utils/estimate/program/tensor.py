"""The same forward pass under tensor parallelism: parallel/tensor.py, line by line."""

from __future__ import annotations

from collections.abc import Mapping

from ...config import TrainConfig
from .kernels import Torch
from .live import Value
from .model import Program
from .regions import Regions
from .tape import Leaf
from .vocabulary import SharedVocabulary
from .weight_grad_store import WeightGradStore


class ParallelProgram(Program):
    """One tensor-parallel rank's part of the model, or one that puts gradients of weights off
    (`split_backward`)."""

    def __init__(
        self,
        torch: Torch,
        config: TrainConfig,
        shapes: Mapping[str, tuple[int, ...]],
        split_backward: bool = False,
        cp_rank: int = 0,
    ) -> None:
        super().__init__(torch, config, shapes, cp_rank)
        self.regions = Regions(self)
        self.vocabulary = SharedVocabulary(self.regions) if config.parallel.tp != 1 else None
        self.weight_grads = WeightGradStore(self) if split_backward else None

    def embed(self, tokens: Value) -> Value:
        return self.vocabulary.embed(tokens) if self.vocabulary else super().embed(tokens)

    def loss(self, logits: Value, targets: Value) -> Value:
        if self.vocabulary:
            return self.vocabulary.loss(logits, targets)
        return super().loss(logits, targets)

    def _inside(self, x: Value | None, weight: bool = False) -> Value | None:
        torch = self.torch
        return torch.cast(x, torch.autocast, weight) if x is not None and torch.autocast else x

    def _weight(self, name: str) -> Value:
        value = self.value_of(name)
        return self._inside(value if self.weight_grads is None else value.detach(), weight=True)

    def weight_gradient(self, gradient: Value, x: Value, leaf: Leaf) -> Value:
        """Of y = x Wᵀ."""
        out, inner = leaf.shape
        if gradient.layout:
            gradient = self.torch.new(gradient.numel, gradient.width, gradient.nbytes)
        return self.torch.weight_gradient(
            out * inner, gradient.width, gradient.nbytes + x.nbytes, 2 * out * x.numel
        )

    def _gradient_of(self, leaf: Leaf, gradient: Value, x: Value) -> Value | None:
        if self.weight_grads is None:
            return self.weight_gradient(gradient, x, leaf)
        self.weight_grads.put(leaf, gradient, x)
        return None

    def project(self, x: Value, *names: str, tied: str | None = None) -> tuple[Value, ...]:
        torch = self.torch
        self.torch.enter(names[0])
        weight_names = [tied or f"{name}.weight" for name in names]
        leaves = [self.leaves[name] for name in weight_names]
        weights = [self._weight(name) for name in weight_names]
        biases = [self._inside(self.value_of(f"{name}.bias")) for name in names]
        x = self._inside(x)
        outputs = self._column_forward(x, names, leaves, weights, biases)
        biased = [b is not None for b in biases]

        def backward(saved: list[Value], gradients: list[Value]) -> list[Value | None]:
            x, *weights = saved
            whole, gathering = self.regions.gather(x, at_once=False)
            torch.scope = names[0]
            summand = self._product(gradients[0], weights[0], leaves[0])
            for name, gradient, weight, leaf in zip(
                names[1:], gradients[1:], weights[1:], leaves[1:], strict=True
            ):
                torch.scope = name
                product = self._product(gradient, weight, leaf)
                torch.kernel(summand.nbytes + product.nbytes, summand.nbytes)
                del product
            torch.scope = names[0]
            gathering = self.regions.waited(gathering)
            of_x, ring = self.regions.reduce(summand)
            of_weights = []
            for name, leaf, gradient in zip(names, leaves, gradients, strict=True):
                torch.scope = name
                of_weights.append(self._gradient_of(leaf, gradient, whole))
            of_biases = [
                torch.new(leaf.shape[0], g.width, g.nbytes) if b else None
                for leaf, g, b in zip(leaves, gradients, biased, strict=True)
            ]
            del ring, gathering
            torch.scope = names[0]
            return [self.regions.own(of_x), *of_weights, *of_biases]

        torch.scope = names[0]
        torch.record(outputs, (x, *weights, *biases), (x, *weights), backward)
        return outputs

    def _column_forward(
        self,
        x: Value,
        names: tuple[str, ...],
        leaves: list[Leaf],
        weights: list[Value],
        biases: list[Value | None],
    ) -> tuple[Value, ...]:
        whole, _gathering = self.regions.gather(x)
        outputs = []
        for name, leaf, weight, bias in zip(names, leaves, weights, biases, strict=True):
            self.torch.scope = name
            out, inner = leaf.shape
            rows = whole.numel // inner
            read = whole.nbytes + weight.nbytes + (bias.nbytes if bias is not None else 0)
            outputs.append(self.torch.new(rows * out, whole.width, read, 2 * rows * out * inner))
        return tuple(outputs)

    def _product(self, gradient: Value, weight: Value, leaf: Leaf) -> Value:
        out, inner = leaf.shape
        if gradient.layout:
            gradient = self.torch.new(gradient.numel, gradient.width, gradient.nbytes)
        rows = gradient.numel // out
        return self.torch.new(
            rows * inner, gradient.width, gradient.nbytes + weight.nbytes, 2 * rows * out * inner
        )

    def leave(self, name: str, x: Value) -> Value:
        torch = self.torch
        self.torch.enter(name)
        x, weight = self._inside(x), self._weight(f"{name}.weight")
        leaf = self.leaves[f"{name}.weight"]
        y = self._row_forward(x, weight, leaf)

        def backward(saved: list[Value], gradients: list[Value]) -> tuple[Value, Value | None]:
            x, weight = saved
            gradient, _gathering = self.regions.gather(gradients[0])
            return self._product(gradient, weight, leaf), self._gradient_of(leaf, gradient, x)

        torch.record(y, (x, weight), (x, weight), backward)
        bias = self.value_of(f"{name}.bias")
        return y if bias is None else torch.add_row(y, self._inside(bias))

    def _row_forward(self, x: Value, weight: Value, leaf: Leaf) -> Value:
        out, inner = leaf.shape
        rows = x.numel // inner
        shard, ring = self.regions.reduce(
            self.torch.new(rows * out, x.width, x.nbytes + weight.nbytes, 2 * rows * out * inner)
        )
        del ring
        return self.regions.own(shard)

    def project_out(self, x: Value) -> Value:
        return self.project(x, "head", tied="token_embedding.weight" if self.model.tied else None)[
            0
        ]


def program_of(
    torch: Torch,
    config: TrainConfig,
    shapes: Mapping[str, tuple[int, ...]],
    split_backward: bool = False,
    cp_rank: int = 0,
) -> Program:
    """The rank's program: the plain one where nothing is shared out or put off."""
    if config.parallel.tp == 1 and not split_backward:
        return Program(torch, config, shapes, cp_rank)
    return ParallelProgram(torch, config, shapes, split_backward, cp_rank)
