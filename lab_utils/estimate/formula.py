"""What a block saves, as a formula that nobody wrote down: the ledger's own, with letters for
sizes."""

from __future__ import annotations

from ..config import TrainConfig
from .program.kinds import kind_of, numbers_of
from .program.ledger import ledger_of
from .program.share import Share
from .program.size import Product, Size

_ORDER = "bsztharkedfv"


def saved_formula(config: TrainConfig, kernels: str = "cpu") -> str:
    """Bytes that one block of `config` saves for the backward pass of one micro-batch, on one of
    its tensor-parallel ranks, by the rules of a cluster's `kernels`.

    b sequences of s tokens, h hidden, a heads of d (k for keys and values, where they are fewer), f
    inside the MLP: heads and MLP are a rank's own. Under sequence parallelism z is a rank's share
    of the s tokens. The longest products come first: "16·b·s·h + …".
    """
    p = config.parallel
    numbers = {
        name: max(2, number)
        for name, number in numbers_of(config.model, config.micro_batch, Share.of(config)).items()
    }
    numbers |= {"t": p.tp, "D": 1, "r": config.model.heads // config.model.kv_heads}
    kind = kind_of(
        config.model,
        config.precision,
        numbers,
        share=Share.of(config),
        layers=1,
        recomputed=(0,) if config.recompute == "full" else (),
        selective=config.recompute == "selective",
    )
    entries = [entry for entry in ledger_of(kind, kernels) if entry.part == "blocks.0"]
    saved = sum(
        (visit.saved for entry in entries for visit in entry.visits if visit.phase == "forward"), 0
    )
    many = config.model.kv_heads != config.model.heads
    merged: dict[Product, int] = {}
    for product, times in (saved.terms if isinstance(saved, Size) else {}).items():
        letters, times = _with_usual_letters(product, times, many)
        merged[letters] = merged.get(letters, 0) + times
    longest_first = sorted(
        merged.items(),
        key=lambda term: (-len(term[0]), [_ORDER.index(letter) for letter in term[0]]),
    )
    return " + ".join(
        "·".join([str(times)] * (times != 1 or not product) + list(product)).replace("s·s", "s²")
        for product, times in longest_first
    )


def _with_usual_letters(product: Product, times: int, grouped: bool) -> tuple[Product, int]:
    """a for r·k heads, or k where each has keys of its own; d for twice e; s for t times z."""
    letters = list(product)
    for pair, usual in (("rk", "a"), ("tz", "s")):
        while all(letter in letters for letter in pair):
            for letter in pair:
                letters.remove(letter)
            letters.append(usual)
    if not grouped:
        letters = ["a" if letter == "k" else letter for letter in letters]
    while "e" in letters and times % 2 == 0:
        letters[letters.index("e")], times = "d", times // 2
    return tuple(sorted(letters, key=_ORDER.index)), times
