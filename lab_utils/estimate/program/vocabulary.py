"""The model's two ends where the vocabulary is shared out: parallel/vocabulary.py, line by line."""

from __future__ import annotations

from .attention import masked
from .kernels import INDEX
from .live import Value
from .regions import Regions


class SharedVocabulary:
    """Embedding and loss of a rank that has some of the words."""

    def __init__(self, regions: Regions) -> None:
        self.regions, self.program, self.torch = regions, regions.program, regions.torch

    def embed(self, tokens: Value) -> Value:
        """The sum of the ranks' rows, and positions."""
        torch, program = self.torch, self.program
        self.torch.enter("token_embedding")
        x = self._embedded(tokens)
        if program.model.positions == "learned":
            self.torch.enter("position_embedding")
            positions = torch.new(program.config.rank_seq, INDEX)
            if self.regions.scattered and tokens.numel != program.config.rank_seq:
                positions = torch.new(tokens.numel, INDEX, positions.nbytes)
            x = torch.add(
                x,
                torch.embedding(
                    program.value_of("position_embedding.weight"),
                    positions,
                    x.numel // program.model.hidden,
                    program.model.hidden,
                ),
            )
        return x

    def _embedded(self, tokens: Value) -> Value:
        torch, count = self.torch, tokens.numel
        rows = torch.new(count, INDEX, tokens.nbytes)
        elsewhere = self._either(rows)
        found = torch.embedding(
            self.program.value_of("token_embedding.weight"),
            torch.new(count, INDEX, rows.nbytes),
            count,
            self.program.model.hidden,
        )
        return self._left(masked(torch, found, elsewhere))

    def _either(self, rows: Value) -> Value:
        below, above = (self.torch.new(rows.numel, 1, rows.nbytes) for _ in range(2))
        return self.torch.new(rows.numel, 1, below.nbytes + above.nbytes)

    def _left(self, summand: Value) -> Value:
        y = self._left_forward(summand)

        def backward(saved: list[Value], gradients: list[Value]) -> tuple[Value]:
            whole, _gathering = self.regions.gather(gradients[0])
            return (whole,)

        self.torch.record(y, (summand,), (), backward)
        return y

    def _left_forward(self, summand: Value) -> Value:
        shard, ring = self.regions.reduce(
            self.torch.new(summand.numel, summand.width, summand.nbytes)
        )
        del ring
        return self.regions.own(shard)

    def loss(self, logits: Value, targets: Value) -> Value:
        """Cross-entropy of logits that no rank has whole."""
        if self.torch.convention.loss_in_place:
            self.regions.send("all_gather", 12 * targets.numel * self.regions.ranks)
            loss = self.torch.loss_in_place(logits, targets, self.regions.ranks)
        else:
            loss = self._cross_entropy(self.torch.cast(logits, 4), targets)
        self.program.count(targets)
        return loss

    def _cross_entropy(self, logits: Value, targets: Value) -> Value:
        torch, n = self.torch, targets.numel
        vocab = logits.numel // n
        loss, kept = self._loss_forward(logits, targets)

        def backward(saved: list[Value], gradients: list[Value]) -> tuple[Value]:
            softmax = saved[0]
            of_logits = torch.new(n * vocab, 4, softmax.nbytes)
            chosen = torch.new(n, 4, saved[2].nbytes)
            chosen = torch.new(n, 4, chosen.nbytes)
            torch.kernel(2 * of_logits.nbytes + chosen.nbytes, 2 * of_logits.nbytes)
            return (of_logits,)

        torch.record(loss, (logits,), kept, backward)
        return loss

    def _loss_forward(self, logits: Value, targets: Value) -> tuple[Value, tuple[Value, ...]]:
        torch, n = self.torch, targets.numel
        largest = torch.new(n, 4, logits.nbytes)
        self.regions.send("all_reduce", largest.nbytes)
        shifted = torch.new(logits.numel, 4, logits.nbytes + largest.nbytes)
        rows = torch.new(n, INDEX, targets.nbytes)
        here = self._either(rows)
        rows = torch.new(n, INDEX, rows.nbytes + torch.new(n, 1, here.nbytes).nbytes)
        target_logit = self._picked(rows, here)
        torch.kernel(shifted.nbytes, shifted.nbytes)
        sums = self._stacked(target_logit, shifted)
        self.regions.send("all_reduce", sums.nbytes)
        counted = torch.new(n, 1, targets.nbytes)
        torch.kernel(shifted.nbytes, shifted.nbytes)
        return self._total(n, counted), (shifted, rows, here, counted)

    def _picked(self, rows: Value, here: Value) -> Value:
        picked = self.torch.new(rows.numel, 4, rows.nbytes)
        nowhere = self.torch.new(rows.numel, 1, here.nbytes)
        return self.torch.new(rows.numel, 4, picked.nbytes + nowhere.nbytes)

    def _stacked(self, target_logit: Value, exponentials: Value) -> Value:
        total = self.torch.new(target_logit.numel, 4, exponentials.nbytes)
        return self.torch.new(2 * total.numel, 4, 2 * total.nbytes)

    def _total(self, n: int, counted: Value) -> Value:
        logs = self.torch.new(n, 4, 4 * n)
        logs = self.torch.new(n, 4, 2 * logs.nbytes)
        skipped = self.torch.new(n, 1, counted.nbytes)
        logs = self.torch.new(n, 4, logs.nbytes + skipped.nbytes)
        return self.torch.new(1, 4, logs.nbytes)
