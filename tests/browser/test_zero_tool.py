"""What only the page of the ZeRO tool has: moments that depend on the stage."""

from __future__ import annotations

from tool_pages import choose, label


def test_the_last_moment_is_the_last_of_the_stage(tools, open_page):
    tool = tools("zero", "en")
    page = open_page(tool).page
    slider = page.get_by_label(label(tool, "moment"), exact=True)
    choose(page, tool, stage="1")
    slider.press("End")
    assert slider.get_attribute("aria-valuetext") == "the updated shards go round"
    choose(page, tool, stage="3")
    assert slider.get_attribute("aria-valuetext") == "the optimizer steps", (
        "in stage 3 nothing goes round after it"
    )


# moves a slider one step and says how many shards set out at that moment, and how far each is to go
SETS_OUT = """label => {
  const box = [...document.querySelectorAll('.control input')].find(
    box => box.labels[0].textContent === label);
  box.value = +box.value + 1;
  box.dispatchEvent(new Event('input', { bubbles: true }));
  return document.getAnimations()
    .filter(each => each.transitionProperty === 'x' && each.effect.target.matches('rect.fly'))
    .map(each => each.effect.getKeyframes().map(frame => parseFloat(frame.x)));
}"""


def test_a_gathered_shard_flies_from_its_owner(tools, open_page):
    """When the embedding is gathered, each rank's shard of it sets out for the three others; so
    does that of block 0, which is gathered ahead."""
    tool = tools("zero", "en")
    page = open_page(tool).page
    flights = page.evaluate(SETS_OUT, label(tool, "moment"))
    assert len(flights) == 2 * 4 * 3
    assert all(start != end for start, end in flights)
