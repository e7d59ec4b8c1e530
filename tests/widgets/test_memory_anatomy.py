"""The memory-anatomy tool without a browser: its numbers are the estimator's, its sums are bounds, its words fit its numbers."""

from __future__ import annotations

import json
import random
import re
from itertools import product

import pytest

from lab_utils import ConfigError, estimate, train
from lab_utils.estimate import hardware
from lab_utils.estimate.memory import memory_of_rank, optimizers
from lab_utils.estimate.memory import terms as estimate_memory
from lab_utils.estimate.program.model import Program
from lab_utils.layout.refusals_layout import refuse_layout
from lab_utils.widgets import Explorer, anatomy_costs, anatomy_measured, anatomy_steps, memory_anatomy
from lab_utils.widgets.controls import start_state
from lab_utils.widgets.scene import COLOURS
from lab_utils.widgets.sums import SumPanel, _added
from lab_utils.widgets.table import decompress

HAN = r"[\u4e00-\u9fff]"
EXACT = ("parameters", "gradients", "optimizer", "gathered", "buckets", "activations", "weight_copies")


@pytest.fixture(scope="module")
def tools() -> dict[str, Explorer]:
    return {lang: memory_anatomy.explorer(lang) for lang in ("en", "zh")}


@pytest.fixture(scope="module")
def panel(tools) -> SumPanel:
    return tools["en"].panels[0]


def test_every_term_has_a_colour_of_its_own(panel):
    fills = [term.fill for term in panel.terms]
    assert len(set(fills)) == len(fills)
    assert all(f"on-{fill}" in COLOURS for fill in fills)


def random_states(tool: Explorer, seed: int, count: int, **fixed) -> list[dict]:
    """So many states that can be, with some controls fixed."""
    draw, found = random.Random(seed), []
    while len(found) < count:
        state = {control.name: draw.choice(control.options)[0] for control in tool.controls} | fixed
        if not any(refusal.why({name: state[name] for name in refusal.controls}, "en") for refusal in tool.panels[0].refusals):
            found.append(state)
    return found


def config(state: dict):
    return anatomy_costs.config_of(**{name: value for name, value in state.items() if name != "gpu"})


def shown_ranks(pp: int) -> list[int]:
    return [0] if pp == 1 else [0, pp - 1] if pp == 2 else [0, pp // 2, pp - 1]


def bytes_by_term(panel: SumPanel, state: dict) -> list[dict[str, int]]:
    """What the panel adds up for each bar, of whatever moment."""
    shown = [i for i, name in enumerate(panel.bars.row(state)) if name >= 0]
    return [{term.name: _added(term.bytes, state, 3)[i] for term in panel.terms} for i in shown]


@pytest.mark.parametrize(("model", "count"), [("tiny", 120), ("gpt2", 12), ("gpt2-xl", 8), ("llama3-8b", 8), ("llama3-70b", 4), ("llama3.1-405b", 2)])
def test_every_term_is_the_estimators_and_their_sum_a_bound_of_the_peak(tools, panel, model, count):
    for state in random_states(tools["en"], 1, count, model=model):
        held = bytes_by_term(panel, state)
        for (_, _, longest), terms, rank in zip(panel.reading(state, "en").bars, held, shown_ranks(state["pp"]), strict=True):
            estimated = memory_of_rank(config(state), rank, 0)
            assert {term: terms[term] for term in EXACT} == {term: estimated[term] for term in EXACT}, (state, rank)
            assert sum(longest) >= estimated["peak"], (state, rank)


def test_the_fullest_of_all_ranks_is_among_those_shown(tools, panel):
    """Without what is only bounded: of the estimator's exact terms, no rank of any stage and tp position holds more."""
    for state in random_states(tools["en"], 2, 40, model="tiny", dp=1):
        ranks = [sum(rank.memory[term] for term in EXACT) for rank in estimate(config(state)).ranks]
        assert max(ranks) == max(sum(terms[term] for term in EXACT) for terms in bytes_by_term(panel, state)), state


def test_what_is_refused_is_what_the_layout_refuses_and_says_what_works(tools):
    panel, draw, seen = tools["en"].panels[0], random.Random(3), set()
    for _ in range(300):
        state = {control.name: draw.choice(control.options)[0] for control in tools["en"].controls}
        try:
            refuse_layout(config(state))
            wrong = None
        except ConfigError as error:
            wrong = str(error)
        refused = next((lines for refusal in panel.refusals if (lines := refusal.lines(state, "en"))), None)
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
    """If this fails, the estimator has changed: python -c "from lab_utils.widgets import memory_anatomy; memory_anatomy.keep()"."""
    controls = {control.name: control for control in tools["en"].controls}
    tables = decompress(json.loads(memory_anatomy.KEPT.read_text(encoding="ascii")))
    for table, amount in zip(tables, panel._amounts, strict=True):
        assert panel.agrees(table, amount, controls, probes=12, first=7), amount.controls


def test_a_table_that_no_longer_holds_is_not_used(tools, panel, monkeypatch):
    controls = {control.name: control for control in tools["en"].controls}
    assert panel._read(controls) is not None
    monkeypatch.setattr(anatomy_costs, "model_states", lambda kind, **state: dict.fromkeys(anatomy_costs.STATES, 1))
    assert panel._read(controls) is None


def test_another_constant_in_the_estimator_is_another_number(tools, panel, monkeypatch):
    state = start_state(tools["en"].controls)
    before = bytes_by_term(panel, state)[0]
    remembered = (anatomy_costs.surrogate, anatomy_costs.model_states, estimate_memory._states)
    for cached in remembered:
        cached.cache_clear()
    monkeypatch.setattr(optimizers, "FP32", 6)
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
    monkeypatch.setattr(Program, "embed", lambda self, tokens: _saved(self.torch, real(self, tokens)))
    after = bytes_by_term(panel, state)[0]["activations"]
    for cached in (anatomy_steps._played, anatomy_steps._parts, anatomy_steps._row):
        cached.cache_clear()
    assert after > before


def _saved(torch, x):
    """x, with a copy of it kept for the backward pass."""
    y = torch.new(x.numel, x.width)
    torch.record(y, (x,), [torch.new(x.numel, x.width)], lambda saved, g: (g[0],))
    return y


def test_every_measured_run_equals_the_estimate(tools, panel):
    runs = anatomy_measured._recorded()["runs"]
    assert [run["state"] for run in runs] == [state | {} for state in anatomy_measured.cases()]
    assert {run["state"]["model"] for run in runs} == {"tiny", "gpt2"}
    for run in runs:
        terms = bytes_by_term(panel, run["state"] | {"gpu": "T4"})
        assert [[bar[term] for term in anatomy_measured.COUNTED] for bar in terms] == [bar[:-2] for bar in run["bars"]], run["state"]
        assert all(bar[-2:] == [None, None] for bar in run["bars"])


@pytest.mark.parametrize("state", [{"model": "tiny", "precision": "bf16", "recompute": "full", "micro_batch": 4}], ids=["bf16, full"])
def test_a_run_of_today_equals_the_record(state):
    whole = anatomy_measured.PLAIN | state
    recorded = next(run["bars"] for run in anatomy_measured._recorded()["runs"] if run["state"] == whole)
    assert anatomy_measured.measure(whole, train)[0] == recorded


def test_measured_is_said_only_where_it_was_measured(tools):
    tool, state = tools["en"], anatomy_measured.PLAIN | {"model": "tiny", "gpu": "T4"}
    scene = tool.scene(tool.panels[0], state)
    assert scene["alt"].endswith("the same to the byte.")
    assert sum("-tick-" in item["key"] for item in scene["items"]) == 4
    scene = tool.scene(tool.panels[0], state | {"micro_batch": 2})
    assert "measured" not in scene["alt"].lower()
    assert not any("-tick-" in item["key"] for item in scene["items"])


def test_the_gpus_are_the_named_ones(tools):
    options = {value: words for control in tools["en"].controls if control.name == "gpu" for value, words in control.options}
    for name, words in options.items():
        assert int(re.search(r"(\d+)\u00a0GB", words).group(1)) == hardware.HARDWARE[name].memory_bytes / 1e9


def test_the_challenge_can_be_solved_and_nothing_fits_with_a_larger_micro_batch(tools, panel):
    """Over every layout of 16 ranks and both bf16s; all recomputed and one micro-batch in all holds least."""
    start = start_state(tools["en"].controls)
    assert not panel.met(start)
    largest, solved = memory_anatomy.LARGEST_MICRO_BATCH, []
    degrees = [d for d in product(*memory_anatomy.DEGREES.values()) if d[0] * d[1] * d[2] == 16]
    for precision, (dp, tp, pp), zero in product(("bf16", "bf16-pure"), degrees, range(4)):
        state = start | {"precision": precision, "dp": dp, "tp": tp, "pp": pp, "zero": zero, "sequence_parallel": tp > 1, "recompute": "full",
                         "micro_batches": 1}  # fmt: skip
        assert not any(panel.fits(state | {"micro_batch": b}) for b in memory_anatomy.MICRO_BATCH if b > largest), state
        if panel.met(state | {"micro_batch": largest}):
            solved.append(state | {"micro_batch": largest})
    assert {(state["tp"], state["pp"], state["precision"]) for state in solved} == {(8, 2, "bf16")}
    assert not any(panel.met(state | {"recompute": "selective"}) or panel.met(state | {"sequence_parallel": False}) for state in solved)
    for state in solved:
        changed = [name for name in start if state[name] != start[name]]
        assert len(changed) >= 3, "not one or two moves away from the start"


def test_what_changed_most_is_named_with_its_factor(tools):
    tool, state = tools["en"], start_state(tools["en"].controls) | {"recompute": "none"}
    scene = tool.panels[0].scene(state | {"micro_batch": 4}, "en", state)
    shown = {item["key"]: item["text"] for item in scene["items"] if "text" in item}
    before, after = (bytes_by_term(tool.panels[0], s)[0]["activations"] for s in (state, state | {"micro_batch": 4}))
    assert shown["figure2"] == "4.00\u00a0×"
    assert after / before == pytest.approx(4, rel=1e-3)
    assert shown["figure-detail2"].startswith("saved activations: ")
    assert "(4.00\u00a0×)" in shown["key-name-activations"]
    assert "With the last move saved activations went from" in scene["alt"]
    same = tool.panels[0].scene(state | {"gpu": "B200"}, "en", state)
    assert "changed nothing" in next(item["text"] for item in same["items"] if item["key"] == "figure-detail2")


def test_chinese_is_chinese(tools):
    wrong = re.compile(rf"{HAN}\s*[,;:()?!]|[,;:()?!]\s*{HAN}|{HAN}[A-Za-z0-9]|[A-Za-z0-9]{HAN}")
    tool = tools["zh"]
    words = {tool.spec["title"], tool.spec["challenge"]["task"], *(c["label"] for c in tool.spec["controls"])}
    words |= {text for c in tool.spec["controls"] for options in c["words"] for text in options} | {p["label"] for p in tool.spec["presets"]}
    before = start_state(tool.controls)
    for state in [*random_states(tool, 5, 20, model="tiny"), *random_states(tool, 5, 3)]:
        scene = tool.panels[0].scene(state, "zh", before)
        words |= {scene["alt"], *(item[key] for item in scene["items"] for key in ("text", "title") if key in item)}
        before = state
    assert not {text for text in words if wrong.search(text)}
    assert not any(re.search(HAN, str(tools["en"].scene(tools["en"].panels[0], state))) for state in random_states(tools["en"], 6, 10, model="tiny"))


def test_keys_are_unique_and_bars_stay_inside(tools):
    tool = tools["en"]
    for state in [*random_states(tool, 7, 20, model="tiny"), *random_states(tool, 7, 3)]:
        items = tool.scene(tool.panels[0], state)["items"]
        assert len({item["key"] for item in items}) == len(items)
        for item in items:
            if item["tag"] == "rect":
                assert 0 <= item["x"] <= item["x"] + item["width"] <= 760.1
                assert 0 <= item["y"] <= item["y"] + item["height"] <= 392


def test_the_presets_are_states_that_can_be(tools):
    for preset in tools["en"].presets:
        assert tools["en"].panels[0].reading(preset.state, "en").refused is None
