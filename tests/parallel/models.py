"""Models that are not ours, small: what people bring to a library for parallel training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab_utils.parallel import tensor_plans
from lab_utils.parallel.tensor_plan import Attributes, TensorPlan

ROWS = 8  # of the whole batch; 2 and 4 ranks have equal shares


class Encoder(nn.Module):
    """torch's own transformer, with a head."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))

    def inputs(self) -> Tensor:
        return torch.randn(ROWS, 6, 16)


class Convolutional(nn.Module):
    """Weights of four dims, in the layout that convolutions like; a norm with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 4, 3)
        ).to(memory_format=torch.channels_last)
        self.head = nn.Linear(4, 5)
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x).mean((2, 3)) * self.scale)

    def inputs(self) -> Tensor:
        return torch.randn(ROWS, 3, 8, 8).to(memory_format=torch.channels_last)


class Tied(nn.Module):
    """A weight that two modules share, a frozen half, and a layer that takes no part."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 12)
        self.frozen = nn.Linear(12, 12).requires_grad_(False)
        self.trained, self.unused = nn.Linear(12, 12), nn.Linear(3, 3)
        self.head = nn.Linear(12, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.trained(self.frozen(self.embedding(x)).tanh()).mean(1))

    def inputs(self) -> Tensor:
        return torch.randint(11, (ROWS, 4))


class Mixed(nn.Module):
    """Parameters of two dtypes, in turns, as a model with fp64 norms has them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(10, 10, dtype=torch.float64 if i % 2 else torch.float32) for i in range(6)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x.to(layer.weight.dtype)).tanh()
        return x

    def inputs(self) -> Tensor:
        return torch.randn(ROWS, 10)


def of_transformers(kind: str) -> nn.Module:
    """A model of the `transformers` package, small, its weights drawn at random: "gpt2" (tied
    embeddings) or "llama"."""
    import transformers

    if kind == "gpt2":
        shape = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 16}
        drop = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0)
        config = transformers.GPT2Config(vocab_size=13, use_cache=False, **shape, **drop)
        return transformers.GPT2LMHeadModel(config)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16}
    config = transformers.LlamaConfig(vocab_size=13, use_cache=False, **shape, **heads)
    return transformers.LlamaForCausalLM(config)


class Language(nn.Module):
    """A language model of `transformers`, asked for one token: its loss is like the others'."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner = of_transformers(kind)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(input_ids=x).logits[:, -1]

    def inputs(self) -> Tensor:
        return torch.randint(13, (ROWS, 8))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "encoder": Encoder,
    "convolutional": Convolutional,
    "tied": Tied,
    "mixed": Mixed,
}
# importing transformers takes a process five seconds, so not every launch has these
LANGUAGE: dict[str, Callable[[], nn.Module]] = {
    "gpt2": partial(Language, "gpt2"),
    "llama": partial(Language, "llama"),
}

# how tensor parallelism may share them out
PLANS: dict[str, Callable[[nn.Module], TensorPlan]] = {
    "encoder": lambda model: tensor_plans.ENCODER,
    "convolutional": lambda model: {
        "layers.0": "column",
        "layers.1": ["channels", Attributes("num_groups")],
        "layers.3": "row",
    },
    "tied": lambda model: {
        "embedding": "vocabulary",
        "frozen": "column",
        "trained": "row",
        "head": "head",
    },
    "mixed": lambda model: {"layers.[024]": "column", "layers.[135]": "row"},
    "gpt2": lambda model: tensor_plans.gpt2(model.inner.config),
    "llama": lambda model: tensor_plans.llama(model.inner.config),
}


def made(name: str, seed: int) -> nn.Module:
    """The model with weights of its own for each seed."""
    torch.manual_seed(seed)
    return (MODELS | LANGUAGE)[name]()


def batches(model: nn.Module, steps: int) -> list[tuple[Tensor, Tensor]]:
    """Inputs and targets of whole batches, the same on every rank."""
    torch.manual_seed(77)
    with torch.no_grad():
        inputs = [model.inputs() for _ in range(steps)]
        return [(x, torch.randint(5, (ROWS,))) for x in inputs]


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The mean over the rows."""
    return F.cross_entropy(model(x).float(), y)


class Piece(nn.Module):
    """A part of a model as a layer of its own: `function` of the modules and tensors that it is
    given, and of what the piece before it says."""

    def __init__(self, function: Callable[..., Tensor], *parts: nn.Module | Tensor) -> None:
        super().__init__()
        self.function, self.names = function, [f"part{i}" for i in range(len(parts))]
        for name, part in zip(self.names, parts, strict=True):
            if isinstance(part, nn.Module):
                self.add_module(name, part)
            else:
                self.register_buffer(name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *(getattr(self, name) for name in self.names))


def pieces_of(name: str, model: nn.Module) -> list[nn.Module]:
    """The same model as a list of layers, of which each reads what the one before it gives."""
    if name == "encoder":
        return [*model.encoder.layers, Piece(lambda x, head: head(x.mean(1)), model.head)]
    if name == "convolutional":
        end = Piece(lambda x, head, s: head(x.mean((2, 3)) * s), model.head, model.scale)
        return [*model.layers, end]
    if name == "tied":
        frozen = Piece(lambda x, layer: layer(x).tanh(), model.frozen)
        end = Piece(lambda x, head: head(x).mean(1), model.head)
        # what is embedded passes a stage of which nothing is trained
        return [model.embedding, frozen, model.trained, end]
    if name == "mixed":
        return [Piece(lambda x, m: m(x.to(m.weight.dtype)).tanh(), m) for m in model.layers]
    inner = model.inner
    if name == "gpt2":
        body = inner.transformer
        begin = Piece(lambda x, w, p: w(x) + p(torch.arange(x.shape[1])), body.wte, body.wpe)
        blocks, norm = list(body.h), body.ln_f
    else:
        body = inner.model
        begin, norm = body.embed_tokens, body.norm
        blocks = [
            Piece(
                lambda x, block, turn: block(
                    x, position_embeddings=turn(x, torch.arange(x.shape[1])[None])
                ),
                block,
                body.rotary_emb,
            )
            for block in body.layers
        ]
    end = Piece(lambda x, norm, head: head(norm(x))[:, -1], norm, inner.lm_head)
    return [begin, *blocks, end]
