"""One optimizer step of one rank, played through without numbers: what is alive at every moment,
and what is saved.

The order is the engine's own (engines/ours.py, parallel/pipeline.py, engines/update.py): gradients
of the step before die, the rank walks down its list of forwards and backwards, gradients are
reduced, judged and applied. What exists before the step is there from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...config import TrainConfig
from ...layout.schedule import Action, Plan, make_schedule, splits_backward
from ..program.attention import Torch
from ..program.conventions import CONVENTIONS
from ..program.live import Storage, Value
from ..program.rank_shape import held_placements, held_units
from ..program.stage_parts import parts_of_stages
from ..program.tape import Leaf, Node
from ..program.tensor import ParallelProgram
from .rank import Rank
from .sync import Replicated, in_buckets

_NORM = 8  # bytes of the squared norm, in fp64


@dataclass(frozen=True)
class StepMemory:
    """Bytes of one rank's step. `activations` and `weight_copies` are each at their own most;
    `at_peak` adds up to `peak`; `passes_peak` is the most until all gradients are summed, before
    the update."""

    activations: int
    weight_copies: int
    passes_peak: int
    peak: int
    at_peak: Mapping[str, int]


def simulate_step(
    config: TrainConfig,
    pp_rank: int = 0,
    tp_rank: int = 0,
    optimizer_bytes: int = 0,
    convention: str = "cpu",
    cp_rank: int = 0,
) -> StepMemory:
    """Play one steady optimizer step of the rank at these coordinates through. `optimizer_bytes`:
    of states on the device."""
    step = Step(config, pp_rank, tp_rank, optimizer_bytes, convention, cp_rank)
    step.run()
    torch = step.torch
    return StepMemory(
        torch.saved_peak, torch.copies_peak, step.passes_peak, torch.peak, torch.at_peak
    )


class Step(Rank):
    """One rank's step: `torch` has counted everything once `run()` has returned. `temporary_bytes`:
    the most that is nothing else, in the forward and backward passes and in the update."""

    def __init__(
        self,
        config: TrainConfig,
        pp_rank: int,
        tp_rank: int,
        optimizer_bytes: int,
        convention: str = "cpu",
        cp_rank: int = 0,
    ) -> None:
        p, parts = config.parallel, parts_of_stages(config, pp_rank)
        self.plan: Plan = make_schedule(p.schedule, p.pp, config.micro_batches, p.virtual_stages)
        held = [part for stage in parts.values() for part in stage]
        self.here = held_placements(config, held, tp_rank)
        shapes = {name: place.local_shape for name, place in self.here.items()}
        together = in_buckets(config, {name: place.numel for name, place in self.here.items()})
        units = held_units(config, held, tp_rank) if p.zero else []
        super().__init__(
            Torch(CONVENTIONS[convention]),
            config,
            parts,
            shapes,
            units,
            together,
            splits_backward(self.plan),
            cp_rank,
        )
        self.states = Storage(self.torch, optimizer_bytes, "optimizer")
        self.actions = self.plan[pp_rank]
        self.position = [{action: i for i, action in enumerate(actions)} for actions in self.plan]
        self.last_stage = p.pp * p.virtual_stages - 1

    def run(self) -> None:
        """The whole step."""
        self.torch.begin_peaks()
        self.sync.zero_grad()
        self._pipeline()
        self.sync.finish()
        self.passes_peak = self.torch.peak
        passing, self.torch.temporary_peak = (
            self.torch.temporary_peak,
            self.torch.terms["temporary"],
        )
        self.torch.phase = "update"
        self.torch.enter("optimizer")
        self._sum_over_holders()
        self._update()
        self.sync.publish()
        self.temporary_bytes = {"passes": passing, "update": self.torch.temporary_peak}

    # -- the pipeline ------------------------------------------------------------------------------

    def _pipeline(self) -> None:
        self.inputs: dict[tuple[int, int], Value] = {}
        self.leaves: dict[tuple[int, int], Leaf] = {}
        self.outputs: dict[tuple[int, int], Value | tuple[Node, int]] = {}
        self.sent: list[tuple[int, int, Value]] = []
        arriving = self._await(self.actions[0])
        for action, following in zip(self.actions, (*self.actions[1:], None), strict=True):
            arrived, arriving = arriving, self._await(following)
            self.sync.enabled = action.micro == self.config.micro_batches - 1
            self._carry_out(action, arrived)

    def _carry_out(self, action: Action, message: Value | None) -> None:
        if message is not None:
            self._let_go(action)
        if action.kind == "F":
            self._forward(action, message)
        elif action.kind == "B":
            self._backward(action, message)
        else:
            self.program.owed.work_off((action.micro, action.stage))

    def _forward(self, action: Action, x: Value | None) -> None:
        key = action.micro, action.stage
        if x is not None:
            self.inputs[key], self.leaves[key] = x, Leaf(x)
            self.torch.hold(x.storage)
        x = self.through(action.stage, x, action.micro)
        if action.stage == self.last_stage:
            self.outputs[key] = x
        else:
            self.outputs[key] = x.node, x.slot
            self._send(x.detach(), action._replace(stage=action.stage + 1))

    def _backward(self, action: Action, gradient: Value | None) -> None:
        key, torch = (action.micro, action.stage), self.torch
        if isinstance(self.program, ParallelProgram) and self.program.owed is not None:
            self.program.owed.open(key)
        if gradient is None:
            scaled = torch.scale(self.outputs.pop(key))
            torch.go_back([(scaled.node, scaled.slot, torch.new(1, 4))])
            del scaled
        else:
            torch.go_back([(*self.outputs.pop(key), gradient)])
        x = self.inputs.pop(key, None)
        if x is not None:
            torch.release(x.storage)
            self._send(self.leaves.pop(key).take(), action._replace(stage=action.stage - 1))

    def _send(self, value: Value, needed_by: Action) -> None:
        to = needed_by.stage % self.config.parallel.pp
        if not self.torch.convention.drops_sent:
            self.sent.append((to, self.position[to][needed_by], value))

    def _let_go(self, action: Action) -> None:
        stage = action.stage + (-1 if action.kind == "F" else 1)
        sender = stage % self.config.parallel.pp
        reached = self.position[sender][action._replace(stage=stage)]
        self.sent = [sent for sent in self.sent if not (sent[0] == sender and sent[1] <= reached)]

    def _await(self, action: Action | None) -> Value | None:
        if action is None or action.kind == "W":
            return None
        neighbour = action.stage + (-1 if action.kind == "F" else 1)
        if not 0 <= neighbour <= self.last_stage:
            return None
        return self.boundary()

    # -- the update --------------------------------------------------------------------------------

    def _sum_over_holders(self) -> None:
        width = 2 if self.config.precision == "bf16-pure" else 4
        width = self.torch.convention.gradient_width(width)
        if isinstance(self.sync, Replicated):
            partial = sum(place.numel for place in self.here.values() if place.partial)
            shared = [place.numel for place in self.here.values() if place.shared_over_pp]
        else:
            pieces = [
                piece for flat in self.sync.units for piece in flat.unit.pieces(self.sync.ranks, 0)
            ]
            partial = sum(numel for name, _, numel, _ in pieces if self.here[name].partial)
            shared = [
                flat.unit.numel // self.sync.ranks
                for flat in self.sync.units
                if any(self.here[n].shared_over_pp for n in flat.names)
            ]
        if partial:
            self.torch.new(partial, width)
        for numel in shared:
            self.torch.new(numel, width)

    def _update(self) -> None:
        torch, config = self.torch, self.config
        if config.clip > 0 or config.precision == "fp16":
            self._norm()
        # the optimizer updates fp32 master weights, so it is given fp32 gradients
        if config.precision == "bf16-pure" and not torch.convention.main_gradients:
            _wide = [torch.new(owned.numel, 4, 2 * owned.numel) for owned in self.sync.owned()]

    def _norm(self) -> None:
        torch = self.torch
        total = torch.new(1, _NORM)
        norm = torch.new(1, 4)
        double = torch.new(1, _NORM)
        del norm
        square = torch.new(1, _NORM)
        del double, square
        root = torch.new(1, _NORM)
        del total, root
