"""The gradient-checkpointing tool without a browser: its curves are the estimator's and the real runs', its words fit its numbers."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from lab_utils import estimate, train
from lab_utils.estimate.program.model import Program
from lab_utils.widgets import Explorer, checkpoint_costs, checkpoint_measured, checkpoint_tradeoff, checkpoint_walk, gradient_checkpointing
from lab_utils.widgets.checkpoint_costs import ATTENTION, LAYERS, PRESETS, config, curve, extra_work, flops, policies
from lab_utils.widgets.checkpoint_walk import MOMENTS, Moment, columns_of, peak_moment, policy_of
from lab_utils.widgets.controls import say, start_state, states
from lab_utils.widgets.units import nbytes, percent

HAN = r"[\u4e00-\u9fff]"


@pytest.fixture(scope="module")
def tools() -> dict[str, Explorer]:
    return {lang: gradient_checkpointing.explorer(lang) for lang in ("en", "zh")}


def every_state(tool: Explorer, panel: int) -> list[dict]:
    by_name = {control.name: control for control in tool.controls}
    return [state for state in states([by_name[name] for name in tool.panels[panel].controls]) if state]


def texts(scene: dict) -> dict[str, str]:
    return {item["key"]: item["text"] for item in scene["items"] if "text" in item}


BLOCK_3_BACK = Moment("backward", 3)


def state_of(policy: str, moment: Moment = BLOCK_3_BACK) -> dict:
    return gradient_checkpointing._ticked(policy) | {"moment": moment}


def test_every_choice_of_layers_is_there_once():
    assert len(policies()) == len(set(policies())) == 2**LAYERS + 1
    assert set(PRESETS.values()) < set(policies())


@pytest.mark.parametrize(("lang", "box", "tip"), [("en", "Block {}", "Block {} recomputed: "), ("zh", "第 {} 层", "重计算第 {} 层：")])
def test_blocks_are_counted_as_the_configuration_counts_them(tools, lang, box, tip):
    boxes = {control.name: control for control in tools[lang].controls}
    dots = {item["key"]: item for item in checkpoint_tradeoff.scene(state_of("none"), lang)["items"]}
    rows = texts(checkpoint_walk.scene(state_of("none"), lang))
    for block in range(LAYERS):
        assert policy_of({"what": "layers"} | {f"layer{i}": i == block for i in range(LAYERS)}) == str(block)
        assert say(boxes[f"layer{block}"].label, lang) == box.format(block)
        assert rows[f"row-{block}"] == box.format(block).lower()
        assert dots[f"dot-{block}"]["title"].startswith(tip.format(block).lower())


def test_the_peaks_and_flops_are_the_estimators():
    for policy in policies():
        report = estimate(config(policy))
        assert curve(policy).peak == report.ranks[0].memory["activations"]
        assert flops(policy) == report.flops["hardware"]
        assert max(point.saved for point in curve(policy).points) == curve(policy).peak
        assert curve(policy).points[0].saved < 10**5, "a step begins with its tokens at most"
        assert curve(policy).points[-1].saved < 10**5


def test_the_real_runs_showed_the_same():
    for policy in PRESETS.values():
        run = checkpoint_measured.measured(policy)
        assert run == (curve(policy).peak, flops(policy))
        assert checkpoint_walk.agrees(policy)
    assert checkpoint_walk.agrees("0") is None


def test_a_run_of_today_equals_the_record():
    run, device = checkpoint_measured.measure("0,2,4", train)
    assert device
    assert run == checkpoint_measured.measured("0,2,4")


def test_a_measurement_that_differs_is_said_to_differ(monkeypatch):
    monkeypatch.setitem(checkpoint_measured._recorded()["runs"], "none", {"activations": 1, "flops": 1})
    checkpoint_walk._curve.cache_clear()
    assert "not the same" in texts(checkpoint_walk.scene(state_of("none"), "en"))["note"]
    checkpoint_walk._curve.cache_clear()


def test_the_table_holds_what_the_scenes_draw(tools):
    table = tools["en"].table
    for panel in tools["en"].panels:
        every = every_state(tools["en"], tools["en"].panels.index(panel))
        assert len(every) == len(table[panel.name]["scenes"]) <= 2048
        for i in range(0, len(every), 191):
            assert table[panel.name]["scenes"][i][0] == tools["en"].scene(panel, every[i])["alt"]


def test_a_layer_that_is_kept_is_saved_once_and_one_that_is_recomputed_comes_back():
    """Saved bytes of a layer's moments: forward adds, backward takes away; a recomputed one adds little and comes back in full."""
    for policy in ("none", "0,2,4", "0,1,2,3,4,5", "5"):
        layers = checkpoint_costs.recomputed(policy)
        for layer in range(LAYERS):
            forward, back = (columns_of(policy)[MOMENTS.index(Moment(phase, layer))] for phase in ("forward", "backward"))
            kept = forward[-1].saved - forward[0].saved
            again = max(point.saved for point in back) - back[0].saved
            plain = columns_of("none")[MOMENTS.index(Moment("forward", layer))]
            whole = plain[-1].saved - plain[0].saved
            assert (kept < whole / 4) == (layer in layers)
            assert (again > whole / 2) == (layer in layers)
            assert any(point.phase == "recompute" for point in back) == (layer in layers)


def test_recomputing_the_last_layer_costs_as_much_and_saves_less():
    for layers in combinations(range(LAYERS - 1), 3):
        without, with_last = ",".join(map(str, layers)), ",".join(map(str, (*layers[:2], LAYERS - 1)))
        assert flops(with_last) == flops(without)
        assert curve(with_last).peak > curve(without).peak
        assert peak_moment(with_last) == Moment("backward", LAYERS - 1)


def test_the_figures_say_the_curve(tools):
    for policy in ("none", "0", "0,2,4", ATTENTION, "1,5"):
        for moment in (Moment("forward", 2), Moment("backward", 2), Moment("backward", 0)):
            shown = texts(checkpoint_walk.scene(state_of(policy, moment), "en"))
            assert shown["figure0"] == nbytes(curve(policy).peak)
            assert shown["figure1"] == (f"+{percent(extra_work(policy))}" if policy != "none" else "0\u00a0%")
            saved = [point.saved for point in columns_of(policy)[MOMENTS.index(moment)]]
            assert shown["figure2"] in {nbytes(saved[-1]), nbytes(max(saved))}
            assert ("forward again" in shown["figure-detail2"]) == (moment.phase == "backward" and moment.part in checkpoint_costs.recomputed(policy)
                                                                    or moment.phase == "backward" and policy == ATTENTION)  # fmt: skip


def test_the_curve_is_as_high_as_the_bytes():
    for policy in ("none", "0,2,4"):
        items = {item["key"]: item for item in checkpoint_walk.scene(state_of(policy), "en")["items"]}
        heights = [float(y) for y in re.findall(r"L[\d.]+ ([\d.]+)", items["area"]["d"])]
        per_byte = (items["grid0"]["y1"] - items["grid100"]["y1"]) / 100e6
        assert items["grid0"]["y1"] - min(heights) == pytest.approx(curve(policy).peak * per_byte, abs=0.2)
        assert items["peak"]["y1"] == pytest.approx(min(heights), abs=0.2)
        assert min(heights) > items["row-predict"]["y"], "the curve stays below the rows"
    assert max(curve(policy).peak for policy in policies()) <= checkpoint_walk._SCALE


def test_every_dot_stands_where_its_bytes_and_work_are():
    items = {item["key"]: item for item in checkpoint_tradeoff.scene(state_of("0,2,4"), "en")["items"]}
    zero, hundred = items["grid0"]["y1"], items["grid100"]["y1"]
    left, ten = items["work0"]["x"], items["work10"]["x"]
    for policy in policies():
        dot = items[f"dot-{policy}"]
        assert (zero - dot["cy"]) / (zero - hundred) * 100e6 == pytest.approx(curve(policy).peak, abs=1e5)
        assert (dot["cx"] - left) / (ten - left) * 0.1 == pytest.approx(extra_work(policy), abs=1e-4)
        assert ("stroke" in dot) == (policy in PRESETS.values())
    assert (items["chosen"]["cx"], items["chosen"]["cy"]) == (items["dot-0,2,4"]["cx"], items["dot-0,2,4"]["cy"])


def test_no_dot_touches_the_words_of_the_axis():
    items = {item["key"]: item for item in checkpoint_tradeoff.scene(state_of("none"), "en")["items"]}
    most_left = min(item["cx"] - item["r"] - item.get("stroke-width", 0) / 2 for key, item in items.items() if key == "chosen" or key.startswith("dot-"))
    assert most_left >= items["grid-name150"]["x"] + 4, "the label ends there"


def test_the_challenge_is_met_by_three_layers_without_the_last(tools):
    solved = {policy_of(state) for state in every_state(tools["en"], 1) if gradient_checkpointing.met(state)}
    assert solved == {",".join(map(str, layers)) for layers in combinations(range(LAYERS - 1), 3)}
    start = start_state(tools["en"].controls)
    assert not gradient_checkpointing.met(start)
    assert sum(start[f"layer{layer}"] for layer in range(LAYERS)) == 3, "as many as it takes, but the wrong ones"


def test_another_program_in_the_estimator_is_another_curve(monkeypatch):
    before = curve("none").peak
    curve.cache_clear()
    real = Program.embed

    monkeypatch.setattr(Program, "embed", lambda self, tokens: _saved(self.torch, real(self, tokens)))
    assert curve("none").peak > before
    curve.cache_clear()


def _saved(torch, x):
    """x, with a copy of it kept for the backward pass."""
    y = torch.new(x.numel, x.width)
    torch.record(y, (x,), [torch.new(x.numel, x.width)], lambda saved, g: (g[0],))
    return y


def test_chinese_is_chinese(tools):
    wrong = re.compile(rf"{HAN}\s*[,;:()?!]|[,;:()?!]\s*{HAN}|{HAN}[A-Za-z0-9]|[A-Za-z0-9]{HAN}")
    tool = tools["zh"]
    words = {tool.spec["title"], tool.spec["challenge"]["task"], *(c["label"] for c in tool.spec["controls"]), *(p["label"] for p in tool.spec["presets"])}
    words |= {text for c in tool.spec["controls"] for options in c["words"] for text in options}
    for i, panel in enumerate(tool.panels):
        for state in every_state(tool, i)[::23]:
            scene = tool.scene(panel, state)
            words |= {scene["alt"], *(item[key] for item in scene["items"] for key in ("text", "title") if key in item)}
            english = tools["en"].scene(panel, state)
            assert not re.search(HAN, str(english))
    assert not {text for text in words if wrong.search(text)}


def test_keys_are_unique(tools):
    for i, panel in enumerate(tools["en"].panels):
        for state in every_state(tools["en"], i)[::37]:
            items = tools["en"].scene(panel, state)["items"]
            assert len({item["key"] for item in items}) == len(items)
