"""The axis of a rank that lives in a room: what it sends goes to the grader, who carries it to the
others. There is no other way from one rank to another, so what the grader counts is all there was.

Nothing arrives before it is waited for: a buffer that is under way holds what was put into it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan

from torch import Tensor

from ...parallel.ledger import Ledger
from .link import Link


class RoomPending:
    """A collective or message under way; `wait()` returns when its result is there. Like torch's
    own Work it has a future, and can be asked; an answer may have found those behind ours."""

    def __init__(self, arrive: Callable[[], None] = lambda: None) -> None:
        self._arrive: Callable[[], None] | None = arrive
        self._works = (self,)

    def wait(self) -> None:
        """Block until the result may be used; waiting twice is harmless."""
        arrive, self._arrive = self._arrive, None
        if arrive is not None:
            arrive()

    def is_completed(self) -> bool:
        """True: whoever asks waits for it."""
        self.wait()
        return True

    def get_future(self) -> RoomPending:
        """What can be waited for."""
        return self


class Axis:
    """What lab_utils.parallel.comm.Axis is to a rank, for ranks in rooms."""

    def __init__(self, link: Link, rank: int, size: int) -> None:
        self.name, self.ranks, self.rank, self.group = "dp", list(range(size)), rank, None
        self.ledger = Ledger()
        self._link, self._issued = link, 0

    @property
    def size(self) -> int:
        """Ranks on the axis."""
        return len(self.ranks)

    def all_reduce(
        self, tensor: Tensor, *, purpose: str, reduction: str = "sum", label: str = ""
    ) -> RoomPending:
        """Every rank's `tensor` becomes the sum (or max), in place."""
        return self._collective({"op": "all_reduce", "reduction": reduction}, tensor, tensor)

    ring_all_reduce = all_reduce

    def broadcast(
        self, tensor: Tensor, source: int, *, purpose: str, label: str = ""
    ) -> RoomPending:
        """Every rank's `tensor` becomes that of `source`, in place."""
        return self._collective({"op": "broadcast", "source": source}, tensor, tensor)

    def all_gather(self, whole: Tensor, *, purpose: str, label: str = "") -> RoomPending:
        """Every rank has filled its own 1/N of `whole`; afterwards all parts are filled. Raises
        ValueError if N does not divide it."""
        return self._collective({"op": "all_gather"}, self._parts(whole)[self.rank], whole)

    def reduce_scatter(
        self, whole: Tensor, *, purpose: str, label: str = ""
    ) -> tuple[Tensor, RoomPending]:
        """The sum over ranks of this rank's 1/N of `whole`, as a view of it; the other parts are
        used up. Raises ValueError if N does not divide it."""
        mine = self._parts(whole)[self.rank]
        return mine, self._collective({"op": "reduce_scatter"}, whole, mine, used_up=whole)

    def send(
        self, tensor: Tensor, to: int, *, purpose: str, label: str = "", channel: int = 0
    ) -> RoomPending:
        """Send to position `to`."""
        self._link.tell({"op": "send", "to": int(to), "channel": int(channel)}, [tensor])
        return RoomPending()

    def receive(self, tensor: Tensor, source: int, *, channel: int = 0) -> RoomPending:
        """Fill `tensor` with what `source` sends next on `channel`."""

        def arrive() -> None:
            wanted = {"receive": int(source), "channel": int(channel), "numel": tensor.numel()}
            _, (came,) = self._link.ask(wanted)
            tensor.copy_(came.view(tensor.shape))

        return RoomPending(arrive)

    def exchange(
        self,
        outgoing: Tensor,
        to: int,
        incoming: Tensor,
        source: int,
        *,
        purpose: str,
        label: str = "",
    ) -> None:
        """Send to position `to` and at the same time receive from `source`. Blocks."""
        self.send(outgoing, to, purpose=purpose)
        self.receive(incoming, source).wait()

    def _collective(
        self, words: dict, given: Tensor, target: Tensor, used_up: Tensor | None = None
    ) -> RoomPending:
        number, self._issued = self._issued, self._issued + 1
        self._link.tell(words, [given.reshape(-1)])
        place = target.detach()

        def arrive() -> None:
            _, (came,) = self._link.ask({"wait": number})
            if used_up is not None and used_up.is_floating_point():
                used_up.detach().fill_(nan)
            place.copy_(came.view(place.shape))

        return RoomPending(arrive)

    def _parts(self, whole: Tensor) -> tuple[Tensor, ...]:
        if whole.numel() % self.size:
            raise ValueError(f"{whole.numel()} elements cannot be cut into {self.size} equal parts")
        return whole.detach().view(-1).chunk(self.size)
