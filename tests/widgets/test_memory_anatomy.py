"""The memory-anatomy tool without a browser: its numbers are the estimator's, its sums are bounds,
its words fit its numbers."""

from __future__ import annotations

import json
import random
import re
from itertools import product

import pytest

from lab_utils import ConfigError, estimate
from lab_utils.estimate import update
from lab_utils.estimate.memory import memory_of_rank
from lab_utils.estimate.memory import terms as estimate_memory
from lab_utils.estimate.program.model import Program
from lab_utils.layout.refusals_layout import refuse_layout
from lab_utils.widgets.frame import Explorer
from lab_utils.widgets.frame.controls import start_state
from lab_utils.widgets.frame.scene import COLOURS
from lab_utils.widgets.frame.sums import SumPanel, _added
from lab_utils.widgets.frame.table import decompress
from lab_utils.widgets.frame.units import digits
from lab_utils.widgets.memory_anatomy import costs as anatomy_costs
from lab_utils.widgets.memory_anatomy import measured as anatomy_measured
from lab_utils.widgets.memory_anatomy import steps as anatomy_steps
from lab_utils.widgets.memory_anatomy import tool as memory_anatomy
from lab_utils.widgets.memory_anatomy.options import CPU, GPUS, convention

EXACT = (
    "parameters",
    "gradients",
    "optimizer",
    "gathered",
    "buckets",
    "activations",
    "weight_copies",
)


@pytest.fixture(scope="module")
def tools() -> dict[str, Explorer]:
    return {lang: memory_anatomy.explorer(lang) for lang in ("en", "zh")}


@pytest.fixture(scope="module")
def panel() -> SumPanel:
    """The panel that asks the estimator, not the table that travels."""
    return memory_anatomy.panel_and_controls()[0]


def test_every_term_has_a_colour_of_its_own(panel):
    fills = [term.fill for term in panel.terms]
    assert len(set(fills)) == len(fills)
    assert all(f"on-{fill}" in COLOURS for fill in fills)


def random_states(tool: Explorer, seed: int, count: int, **fixed) -> list[dict]:
    """So many states that can be, with some controls fixed."""
    draw, found = random.Random(seed), []
    fixed = {"filled": len(tool.panels[0].terms)} | fixed
    while len(found) < count:
        state = {control.name: draw.choice(control.options)[0] for control in tool.controls} | fixed
        if not any(
            refusal.why({name: state[name] for name in refusal.controls}, "en")
            for refusal in tool.panels[0].refusals
        ):
            found.append(state)
    return found


def complete(tool: Explorer) -> dict:
    """What the tool opens with, filled to the end."""
    return start_state(tool.controls) | {"filled": len(tool.panels[0].terms)}


def texts(scene: dict) -> dict[str, str]:
    return {item["key"]: item["text"] for item in scene["items"] if "text" in item}


def config(state: dict):
    return anatomy_costs.config_of(
        **{name: value for name, value in state.items() if name not in ("gpu", "filled")}
    )


def shown_ranks(pp: int) -> list[int]:
    return [0] if pp == 1 else [0, pp - 1] if pp == 2 else [0, pp // 2, pp - 1]


def bytes_by_term(panel: SumPanel, state: dict) -> list[dict[str, int]]:
    """What the panel adds up for each bar, of whatever moment."""
    shown = [i for i, name in enumerate(panel.bars.row(state)) if name >= 0]
    return [{term.name: _added(term.bytes, state, 3)[i] for term in panel.terms} for i in shown]


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("tiny", 60),
        ("gpt2", 6),
        ("gpt2-xl", 4),
        ("llama3-8b", 6),
        ("llama3-70b", 3),
        ("llama3.1-405b", 2),
    ],
)
def test_every_term_is_the_estimators_and_their_sum_a_bound_of_the_peak(tools, panel, model, count):
    for state in random_states(tools["en"], 1, count, model=model):
        held = bytes_by_term(panel, state)
        for (_, _, longest), terms, rank in zip(
            panel.reading(state, "en").bars, held, shown_ranks(state["pp"]), strict=True
        ):
            estimated = memory_of_rank(config(state), rank, 0, convention(state["gpu"]))
            assert {term: terms[term] for term in EXACT} == {
                term: estimated[term] for term in EXACT
            }, (state, rank)
            assert sum(longest) >= estimated["peak"], (state, rank)


def test_the_fullest_of_all_ranks_is_among_those_shown(tools, panel):
    """Without what is only bounded: of the estimator's exact terms, no rank of any stage and tp
    position holds more."""
    for state in random_states(tools["en"], 2, 40, model="tiny", dp=1, gpu=CPU):
        ranks = [sum(rank.memory[term] for term in EXACT) for rank in estimate(config(state)).ranks]
        assert max(ranks) == max(
            sum(terms[term] for term in EXACT) for terms in bytes_by_term(panel, state)
        ), state


def test_what_is_refused_is_what_the_layout_refuses_and_says_what_works(tools):
    panel, draw, seen = tools["en"].panels[0], random.Random(3), set()
    for _ in range(300):
        state = {control.name: draw.choice(control.options)[0] for control in tools["en"].controls}
        try:
            refuse_layout(config(state))
            wrong = None
        except ConfigError as error:
            wrong = str(error)
        refused = next(
            (lines for refusal in panel.refusals if (lines := refusal.lines(state, "en"))), None
        )
        assert (refused is None) == (wrong is None), state
        if refused:
            seen.add("".join(refused))
    assert any("--tp 4 is the most" in words for words in seen)
    assert any("use --pp 4" in words for words in seen)
    state = start_state(tools["zh"].controls) | {"model": "tiny", "tp": 8}
    scene = tools["zh"].scene(tools["zh"].panels[0], state)
    assert "最多可用 --tp 4" in scene["alt"]
    assert scene["items"][0]["text"] == "这样行不通。"


def test_the_table_that_travels_is_what_the_estimator_says_today(tools, panel):
    """If this fails, the estimator has changed: python -c "from
    lab_utils.widgets.memory_anatomy.tool import keep; keep()"."""
    controls = {control.name: control for control in tools["en"].controls}
    tables = decompress(json.loads(memory_anatomy.KEPT.read_text(encoding="ascii")))
    for table, amount in zip(tables, panel._amounts, strict=True):
        assert panel.agrees(table, amount, controls, probes=12, first=7), amount.controls


def test_a_table_that_no_longer_holds_is_not_used(tools, panel, monkeypatch):
    controls = {control.name: control for control in tools["en"].controls}
    assert panel._read(controls) is not None
    monkeypatch.setattr(
        anatomy_costs, "model_states", lambda kind, **state: dict.fromkeys(anatomy_costs.STATES, 1)
    )
    assert panel._read(controls) is None


def test_another_constant_in_the_estimator_is_another_number(tools, panel, monkeypatch):
    state = start_state(tools["en"].controls)
    before = bytes_by_term(panel, state)[0]
    remembered = (anatomy_costs.surrogate, anatomy_costs.model_states, estimate_memory._states)
    for cached in remembered:
        cached.cache_clear()
    monkeypatch.setattr(update, "FP32", 6)
    after = bytes_by_term(panel, state)[0]
    for cached in remembered:
        cached.cache_clear()
    assert {term for term in before if before[term] != after[term]} == {"optimizer"}
    assert after["optimizer"] > before["optimizer"]


def test_another_kernel_in_the_estimator_saves_other_activations(tools, panel, monkeypatch):
    state, real = start_state(tools["en"].controls) | {"model": "tiny"}, Program.embed
    before = bytes_by_term(panel, state)[0]["activations"]
    for cached in (anatomy_steps._played, anatomy_steps._parts, anatomy_steps._row):
        cached.cache_clear()
    monkeypatch.setattr(
        Program, "embed", lambda self, tokens: _saved(self.torch, real(self, tokens))
    )
    after = bytes_by_term(panel, state)[0]["activations"]
    for cached in (anatomy_steps._played, anatomy_steps._parts, anatomy_steps._row):
        cached.cache_clear()
    assert after > before


def _saved(torch, x):
    """x, with a copy of it kept for the backward pass."""
    y = torch.new(x.numel, x.width)
    torch.record(y, (x,), [torch.new(x.numel, x.width)], lambda saved, g: (g[0],))
    return y


def test_every_measured_run_equals_the_estimate_by_the_cpus_rules(tools, panel):
    runs = anatomy_measured.RECORDING.runs
    assert {case["model"] for case, _ in runs} == {"tiny", "gpt2"}
    for case, bars in runs:
        terms = bytes_by_term(panel, case | {"gpu": CPU})
        counted = [[bar[term] for term in anatomy_measured.COUNTED] for bar in terms]
        assert counted == [bar[:-2] for bar in bars], case
        assert all(bar[-2:] == [None, None] for bar in bars)


def test_measured_is_said_of_the_cpu_alone_and_only_where_it_was(tools):
    tool = tools["en"]
    state = complete(tool) | anatomy_measured.PLAIN | {"model": "tiny", "gpu": CPU}
    scene = tool.scene(tool.panels[0], state)
    assert scene["alt"].endswith("the same to the byte.")
    assert sum("-tick-" in item["key"] for item in scene["items"]) == 4
    for change in ({"micro_batch": 2}, {"gpu": "T4"}, {"filled": 5}):
        scene = tool.scene(tool.panels[0], state | change)
        assert not any("-tick-" in item["key"] for item in scene["items"]), change
        note = texts(scene)["note"]
        assert "GPUs: CUDA's kernels" in note, change
        assert "not measured" in note, change


def test_gpus_are_priced_by_cudas_kernels_and_named_with_their_memory(tools, panel):
    options = dict(next(c.options for c in tools["en"].controls if c.name == "gpu"))
    for name, words in options.items():
        shown = re.search(r"(\d+)\u00a0GB", words if isinstance(words, str) else words[0]).group(1)
        assert int(shown) == panel.limit.row({"gpu": name})[0] / 1e9
    assert {convention(name) for name in GPUS} == {"cuda"}
    state = complete(tools["en"])
    by_gpu, by_cpu = (bytes_by_term(panel, state | {"gpu": gpu})[0] for gpu in ("H100-SXM", CPU))
    # of a block's 27.6 streams of 2 bytes the fused RMS norms leave 21.6 (facts of torch 2.13)
    assert by_cpu["activations"] > 1.2 * by_gpu["activations"]
    assert {term for term in by_gpu if by_gpu[term] != by_cpu[term]} <= {"activations", "temporary"}


def test_the_gpu_is_filled_term_by_term(tools, panel):
    state, last = start_state(tools["en"].controls), len(panel.terms)
    whole = bytes_by_term(panel, state)[0]
    for filled in range(1, last + 1):
        scene = panel.scene(state | {"filled": filled}, "en")
        shown = [term.name for term in panel.terms[:filled]]
        held = panel.reading(state | {"filled": filled}, "en").bars[0][2]
        assert sum(held) <= sum(whole[name] for name in shown)
        hidden = [name for name in whole if texts(scene)[f"key-name-{name}"].endswith("…")]
        assert hidden == [term.name for term in panel.terms[filled:]]
        assert (f"{filled} of {last} terms" in scene["alt"]) == (filled < last)


def test_each_step_is_solved_by_a_few_changes_and_by_more_than_one_layout(tools):
    """Over every layout, recomputation and precision, with micro-batches of one sequence."""
    tool, panel = tools["en"], tools["en"].panels[0]
    by_name = {control.name: [value for value, _ in control.options] for control in tool.controls}
    free = (
        "precision",
        "micro_batches",
        "recompute",
        "dp",
        "zero",
        "tp",
        "sequence_parallel",
        "pp",
    )
    before, solutions = complete(tool), []
    for step in tool.steps:
        solution = tool.solution(step)
        assert len([name for name in solution if solution[name] != before[name]]) <= 5
        solved = [
            state
            for values in product(*(by_name[name] for name in free))
            for state in [solution | dict(zip(free, values, strict=True))]
            if not any(need.told(state, "en") for need in step.needs) and panel.fits(state)
        ]
        assert solution in solved
        solutions.append(len(solved))
        before = solution
    print("states that meet each step:", solutions)
    assert solutions == sorted(solutions, reverse=True), "every step is harder than the one before"
    assert solutions[-1] > 10


def test_without_its_cause_a_step_fails_and_says_which(tools):
    tool = tools["en"]
    first, second, third = tool.steps
    for step, change, cause in (
        (first, {"zero": 0}, "optimizer states"),
        (first, {"recompute": "none"}, "saved activations"),
        (second, {"zero": 0}, "optimizer states"),
        (second, {"recompute": "full"}, "Recompute is every layer"),
        (third, {"sequence_parallel": False}, "saved activations"),
        (third, {"dp": 8}, "d · t · p = 128; asked: 64"),
        (third, {"filled": 3}, "3 of 9 terms"),
    ):
        assert cause in tool.far(step, tool.solution(step) | change), (step.task, change)


def test_what_changed_most_is_named_with_its_factor(tools):
    tool, state = tools["en"], complete(tools["en"])
    scene = tool.panels[0].scene(state | {"micro_batch": 4}, "en", state)
    shown = texts(scene)
    before, after = (
        bytes_by_term(tool.panels[0], s)[0]["activations"]
        for s in (state, state | {"micro_batch": 4})
    )
    factor = f"{digits(after / before)}\u00a0×"
    assert shown["figure2"] == factor
    assert after / before == pytest.approx(4, rel=5e-3), "all but what is there once"
    assert shown["figure-detail2"].startswith("saved activations: ")
    assert f"({factor})" in shown["key-name-activations"]
    assert "With the last move saved activations went from" in scene["alt"]
    same = tool.panels[0].scene(state | {"gpu": "B200"}, "en", state)
    assert "changed nothing" in next(
        item["text"] for item in same["items"] if item["key"] == "figure-detail2"
    )


def test_the_presets_are_states_that_can_be(tools):
    for preset in tools["en"].panels[0].presets:
        assert tools["en"].panels[0].reading(preset.state, "en").refused is None


def test_no_preset_solves_a_step(tools):
    tool = tools["en"]
    for step, preset in product(tool.steps, tool.panels[0].presets):
        assert tool.far(step, start_state(tool.controls) | dict(preset.state))
