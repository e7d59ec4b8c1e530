"""One optimizer step of one rank, played through without numbers: what is alive at every moment,
and what is saved.

The order is the engine's own (engines/ours.py, parallel/pipeline.py, engines/update.py): gradients
of the step before die, the rank walks down its list of forwards and backwards, gradients are
reduced, judged and applied. What exists before the step is there from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ....config import TrainConfig
from ....layout.pipeline_events import Receive, Release, Run, Send, pipeline_events
from ....layout.schedule import Action, make_schedule, splits_backward
from ...program.conventions import CONVENTIONS
from ...program.kernels import Torch
from ...program.live import Storage, Value
from ...program.rank_shape import held_placements, held_units
from ...program.stage_parts import parts_of_stages
from ...program.tape import Leaf, Node
from ...program.tensor import ParallelProgram
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
    update_bytes: int = 0,
) -> StepMemory:
    """Play one steady optimizer step of the rank at these coordinates through. `optimizer_bytes`:
    of states on the device; `update_bytes`: of what its step needs for a moment."""
    step = Step(config, pp_rank, tp_rank, optimizer_bytes, convention, cp_rank, update_bytes)
    step.run()
    torch = step.torch
    return StepMemory(
        torch.saved_peak, torch.copies_peak, step.passes_peak, torch.peak, torch.at_peak
    )


@dataclass
class _Passes:
    """What is held between a rank's events: parallel.pipeline's, without numbers."""

    arriving: dict[Action, Value] = field(default_factory=dict)
    inputs: dict[tuple[int, int], Value] = field(default_factory=dict)
    leaves: dict[tuple[int, int], Leaf] = field(default_factory=dict)
    outputs: dict[tuple[int, int], Value | tuple[Node, int]] = field(default_factory=dict)
    made: dict[Action, Value] = field(default_factory=dict)
    sent: dict[Action, Value] = field(default_factory=dict)


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
        update_bytes: int = 0,
    ) -> None:
        p, parts = config.parallel, parts_of_stages(config, pp_rank)
        schedule = make_schedule(p.schedule, p.pp, config.micro_batches, p.virtual_stages)
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
            splits_backward(schedule),
            cp_rank,
        )
        self.states, self.update_bytes = (
            Storage(self.torch, optimizer_bytes, "optimizer"),
            update_bytes,
        )
        self.events = pipeline_events(schedule, pp_rank)
        self.passes_peak, self.temporary_bytes = 0, dict[str, int]()
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
        self._all_reduce_shared()
        self._update()
        self.sync.gather_parameters()
        self.temporary_bytes = {"passes": passing, "update": self.torch.temporary_peak}

    # -- the pipeline ------------------------------------------------------------------------------

    def _pipeline(self) -> None:
        passes = _Passes()
        for event in self.events:
            match event:
                case Receive(action):
                    passes.arriving[action] = self.boundary()
                case Run(action):
                    self.sync.enabled = action.micro == self.config.micro_batches - 1
                    self._run(action, passes)
                case Send(action):
                    sent = passes.made.pop(action)
                    if not self.torch.convention.drops_sent:
                        passes.sent[action] = sent
                    del sent
                case Release(action):
                    passes.sent.pop(action, None)

    def _run(self, action: Action, passes: _Passes) -> None:
        message = passes.arriving.pop(action, None)
        if action.kind == "F":
            self._forward(action, message, passes)
        elif action.kind == "B":
            self._backward(action, message, passes)
        else:
            self.program.weight_grads.compute((action.micro, action.stage))

    def _forward(self, action: Action, x: Value | None, passes: _Passes) -> None:
        key = action.micro, action.stage
        if x is not None:
            passes.inputs[key], passes.leaves[key] = x, Leaf(x)
            self.torch.hold(x.storage)
        x = self.through(action.stage, x, action.micro)
        if action.stage == self.last_stage:
            passes.outputs[key] = x
        else:
            passes.outputs[key] = x.node, x.slot
            passes.made[action] = x.detach()

    def _backward(self, action: Action, gradient: Value | None, passes: _Passes) -> None:
        key, torch = (action.micro, action.stage), self.torch
        if isinstance(self.program, ParallelProgram) and self.program.weight_grads is not None:
            self.program.weight_grads.open(key)
        if gradient is None:
            scaled = torch.scale(passes.outputs.pop(key))
            torch.go_back([(scaled.node, scaled.slot, torch.new(1, 4))])
            del scaled
        else:
            torch.go_back([(*passes.outputs.pop(key), gradient)])
        x = passes.inputs.pop(key, None)
        if x is not None:
            torch.release(x.storage)
            passes.made[action] = passes.leaves.pop(key).take()

    # -- the update --------------------------------------------------------------------------------

    def _all_reduce_shared(self) -> None:
        width = 2 if self.config.precision == "bf16-pure" else 4
        width = self.torch.convention.gradient_width(width)
        if isinstance(self.sync, Replicated):
            partial = sum(place.numel for place in self.here.values() if "tp" in place.sum_over)
            shared = [place.numel for place in self.here.values() if "pp" in place.sum_over]
        else:
            pieces = [
                piece for flat in self.sync.units for piece in flat.unit.pieces(self.sync.ranks, 0)
            ]
            partial = sum(numel for name, _, numel, _ in pieces if "tp" in self.here[name].sum_over)
            shared = [
                flat.unit.numel // self.sync.ranks
                for flat in self.sync.units
                if any("pp" in self.here[one.name].sum_over for one in flat.unit.slices)
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
            _wide = [torch.new(numel, 4, 2 * numel) for numel in self.sync.optimizer_numels()]
        if self.update_bytes:
            torch.new(self.update_bytes, 1)

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
