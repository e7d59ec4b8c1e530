"""torch-lr-finder on our model, optimizer and text, to hold our range test against."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from ...config import TrainConfig
from ...data.loader import Loader
from ...engines.optimizer import BETAS
from ...model import GPT
from ..stability.signal import one_thread

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # tqdm misses ipywidgets, which a quiet bar has no use for
    from torch_lr_finder import LRFinder


@one_thread
def torch_lr_finder(
    config: TrainConfig,
    low: float | None = 1e-6,
    high: float = 1.0,
    iterations: int = 80,
    accumulation_steps: int = 1,
    smooth_f: float = 0.0,
) -> LRFinder:
    """Its range test over `config`'s micro-batches, in the order in which our engine reads them.

    `low` None leaves the optimizer the rate that torch gives it, as a listing does that names
    none. `smooth_f` 0 keeps the losses as they were; theirs is 0.05.
    """
    model, updates = GPT(config.model, config.seed, config.init), iterations
    loader = Loader(config)
    batches = [micro for step in range(updates) for micro in loader.batch(step).micro_batches]
    text = TensorDataset(*(torch.cat(column) for column in zip(*batches, strict=True)))
    rate = {} if low is None else {"lr": low}
    optimizer = torch.optim.AdamW(model.parameters(), betas=BETAS, weight_decay=0.0, **rate)
    finder = LRFinder(model, optimizer, _mean_loss, device="cpu")
    with quiet():
        finder.range_test(
            DataLoader(text, batch_size=config.micro_batch),
            end_lr=high,
            num_iter=iterations,
            accumulation_steps=accumulation_steps,
            smooth_f=smooth_f,
            diverge_th=4,
        )
    return finder


def _mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bar and the sentences that it prints."""
    with patch("torch_lr_finder.lr_finder.tqdm", iter), redirect_stdout(io.StringIO()):
        yield
